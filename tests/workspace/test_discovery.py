"""Finding a workspace: how far the search goes, and what it refuses to trust."""

import os
import stat
from pathlib import Path

import pytest

from parley.core.errors import WorkspaceNotFound, WorkspaceUnsafe
from parley.workspace import discovery
from parley.workspace.discovery import at, create, discover, foreign_config_notice

NOBODY = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home inside the test's folder, so that nothing of the machine is looked at."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


def make(root: Path, name: str = ".parley") -> Path:
    state = root / name
    state.mkdir(parents=True)
    (state / "db.sqlite3").touch()
    return state


def test_the_nearest_workspace_above_is_found(home: Path) -> None:
    make(home / "outer")
    make(home / "outer" / "inner")
    below = home / "outer" / "inner" / "src" / "deep"
    below.mkdir(parents=True)
    found = discover(below)
    assert (found.root, found.state) == (home / "outer" / "inner", home / "outer" / "inner" / ".parley")
    assert not found.adopted


def test_the_current_folder_is_where_the_search_starts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(home / "project")
    monkeypatch.chdir(home / "project")
    assert discover().root == home / "project"


def test_an_agentlip_workspace_is_used_in_place(home: Path) -> None:
    make(home / "project", ".agentlip")
    found = discover(home / "project")
    assert found.adopted
    assert found.db == home / "project" / ".agentlip" / "db.sqlite3"


def test_parley_wins_over_agentlip_in_the_same_folder_and_the_nearer_folder_over_both(home: Path) -> None:
    make(home / "project", ".agentlip")
    make(home / "project", ".parley")
    assert not discover(home / "project").adopted
    make(home / "project" / "sub", ".agentlip")
    assert discover(home / "project" / "sub").adopted


def test_a_state_folder_without_a_database_is_passed_by(home: Path) -> None:
    make(home / "outer")
    (home / "outer" / "inner" / ".parley").mkdir(parents=True)
    assert discover(home / "outer" / "inner").root == home / "outer"


def test_home_itself_is_looked_at_and_nothing_above_it(home: Path, tmp_path: Path) -> None:
    make(tmp_path)
    (home / "project").mkdir()
    with pytest.raises(WorkspaceNotFound):
        discover(home / "project")
    make(home)
    assert discover(home / "project").root == home


def test_a_start_outside_home_may_go_up(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    assert discover(tmp_path / "elsewhere").root == tmp_path


def test_the_search_ends_at_another_device(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(home / "outer")
    mounted = home / "outer" / "mounted"
    (mounted / "sub").mkdir(parents=True)
    true_stat = Path.stat

    def other_device(path: Path, **options: bool) -> os.stat_result:
        result = true_stat(path, **options)
        if not path.is_relative_to(mounted):
            return result
        fields = list(result)
        fields[stat.ST_DEV] = result.st_dev + 1
        return os.stat_result(fields)

    assert discover(mounted / "sub").root == home / "outer"
    monkeypatch.setattr(Path, "stat", other_device)
    with pytest.raises(WorkspaceNotFound):
        discover(mounted / "sub")


def test_a_start_through_a_link_is_searched_from_where_it_really_is(home: Path, tmp_path: Path) -> None:
    make(home / "project")
    (home / "project" / "src").mkdir()
    link = tmp_path / "shortcut"
    link.symlink_to(home / "project" / "src")
    assert discover(link).root == home / "project"


def test_a_start_that_does_not_exist_is_no_workspace(home: Path) -> None:
    make(home / "project")
    with pytest.raises(WorkspaceNotFound):
        discover(home / "project" / "gone")


def test_the_variable_names_the_workspace_when_no_path_is_given(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(home / "one")
    make(home / "two")
    monkeypatch.chdir(home / "one")
    monkeypatch.setenv(discovery.VARIABLE, str(home / "two"))
    assert discover().root == home / "two"
    assert discover(home / "one").root == home / "one"
    monkeypatch.setenv(discovery.VARIABLE, str(home))
    with pytest.raises(WorkspaceNotFound):
        discover()


def test_a_state_folder_that_leads_out_is_refused(home: Path) -> None:
    make(home / "attacker")
    (home / "project").mkdir()
    (home / "project" / ".parley").symlink_to(home / "attacker" / ".parley")
    for find in (discover, at):
        with pytest.raises(WorkspaceUnsafe, match="leads out"):
            find(home / "project")


def test_a_state_folder_that_is_a_link_within_the_workspace_is_followed(home: Path) -> None:
    state = make(home / "project" / "hidden", "state")
    (home / "project" / ".parley").symlink_to(state)
    assert discover(home / "project").state == state


@pytest.mark.parametrize("name", ["db.sqlite3", "token", "server.json", "logs", "locks"])
def test_a_file_that_leads_out_of_the_state_folder_is_refused(home: Path, name: str) -> None:
    state = make(home / "project")
    (state / name).unlink(missing_ok=True)
    (home / "precious").mkdir()
    (state / name).symlink_to(home / "precious")
    with pytest.raises(WorkspaceUnsafe, match=name):
        discover(home / "project")


def test_a_database_that_is_a_link_to_nowhere_is_refused(home: Path) -> None:
    state = make(home / "project")
    (state / "db.sqlite3").unlink()
    (state / "db.sqlite3").symlink_to(home / "not there yet")
    with pytest.raises(WorkspaceUnsafe):
        discover(home / "project")


@as_root
def test_a_state_folder_of_another_user_is_refused(home: Path) -> None:
    state = make(home / "project")
    os.chown(state, NOBODY, NOBODY)
    with pytest.raises(WorkspaceUnsafe, match=f"user {NOBODY}"):
        discover(home / "project")
    with pytest.raises(WorkspaceUnsafe):
        create(home / "project")


def test_an_explicit_folder_needs_no_database_but_a_state_folder(home: Path) -> None:
    with pytest.raises(WorkspaceNotFound):
        at(home)
    made = create(home / "project")
    assert at(home / "project") == at(home / "project" / ".parley") == made
    make(home / "old", ".agentlip")
    assert at(home / "old" / ".agentlip").adopted


def test_a_new_workspace_is_private_and_out_of_version_control(home: Path) -> None:
    old = os.umask(0)
    try:
        made = create(home / "new" / "project")
    finally:
        os.umask(old)
    for folder in (made.state, made.lock.parent, made.logs):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (made.state / ".gitignore").read_text() == "*\n"
    assert not made.db.exists()
    (made.state / ".gitignore").write_text("mine")
    assert create(home / "new" / "project") == made
    assert (made.state / ".gitignore").read_text() == "mine"


def test_creating_where_an_agentlip_workspace_is_uses_it(home: Path) -> None:
    make(home / "project", ".agentlip")
    made = create(home / "project")
    assert made.adopted
    assert made.logs.is_dir()
    assert not (home / "project" / ".parley").exists()


def test_a_place_that_cannot_hold_a_workspace_is_told(home: Path) -> None:
    (home / "file").touch()
    with pytest.raises(WorkspaceUnsafe, match="cannot be used"):
        create(home / "file")


def test_agentlips_configuration_is_noticed_and_never_executed(home: Path) -> None:
    made = create(home / "project")
    assert foreign_config_notice(made) is None
    (made.root / "agentlip.config.ts").write_text("throw new Error('executed')")
    notice = foreign_config_notice(made)
    assert notice is not None
    assert "not executed" in notice


def test_every_file_of_a_workspace_has_its_place(home: Path) -> None:
    made = create(home / "project")
    places = (made.db, made.wal, made.token, made.server_file, made.lock, made.logs, made.backups, made.archives)
    assert all(path.is_relative_to(made.state) for path in (*places, made.suspect))
    assert made.config == made.root / "parley.toml"
    assert made.lock == made.state / "locks" / "hub.lock"
