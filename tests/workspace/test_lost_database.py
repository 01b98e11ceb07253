"""A database that was lost is missed, by what a workspace without one cannot have."""

from collections.abc import Callable
from pathlib import Path

import pytest

from parley.core.errors import DatabaseCorrupt
from parley.core.exits import Exit
from parley.workspace import discovery
from parley.workspace.layout import ADOPTED_NAME, Workspace
from parley.workspace.lost_database import refuse_lost_database


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return discovery.create(tmp_path)


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("1234")


MARKS: list[tuple[str, Callable[[Workspace], Path]]] = [
    ("db.sqlite3-wal", lambda workspace: workspace.wal),
    ("last_port", lambda workspace: workspace.last_port),
    ("backups", lambda workspace: workspace.backups / "db.sqlite3.backup-v3-20260204T233045123Z"),
    ("archives", lambda workspace: workspace.archives / "archive-5-20260204T233045123Z.sqlite3"),
]


@pytest.mark.parametrize(("name", "mark"), MARKS, ids=[name for name, _ in MARKS])
@pytest.mark.parametrize("how", ["gone", "empty"])
def test_what_lies_beside_a_database_tells_that_there_was_one(
    workspace: Workspace, name: str, mark: Callable[[Workspace], Path], how: str
) -> None:
    put(mark(workspace))
    if how == "empty":
        workspace.db.touch()
    with pytest.raises(DatabaseCorrupt, match="gone or empty") as refused:
        refuse_lost_database(workspace)
    assert refused.value.exit_code == Exit.CORRUPT == 21
    assert refused.value.details["marks"] == [str(workspace.state / name)]
    assert "to begin with an empty one, move what is named" in refused.value.hint
    put(workspace.db)
    refuse_lost_database(workspace)


def test_the_newest_backup_is_named(workspace: Workspace) -> None:
    put(workspace.backups / "newest")
    with pytest.raises(DatabaseCorrupt) as refused:
        refuse_lost_database(workspace)
    assert f"cp {workspace.backups / 'newest'} {workspace.db}" in refused.value.hint


def test_a_workspace_that_never_had_a_database_is_not_refused(workspace: Workspace) -> None:
    for name in ("token", "server.json", "logs/hub.log", "agents/session-1", "spool/request", "backups/.unfinished"):
        put(workspace.state / name)
    put(workspace.config)
    put(workspace.root / ADOPTED_NAME / "server.json")
    workspace.archives.mkdir()
    refuse_lost_database(workspace)


def test_an_adopted_folder_is_missed_though_nobody_finds_it_without_its_database(workspace: Workspace) -> None:
    adopted = Workspace(workspace.root, workspace.root / ADOPTED_NAME)
    put(adopted.last_port)
    with pytest.raises(DatabaseCorrupt) as refused:
        refuse_lost_database(workspace)
    assert refused.value.details["path"] == str(adopted.db)
