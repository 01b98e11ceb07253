"""``parley setup``: written to a home that is not the tester's, run again, drifted, repaired, removed."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.programs.catalogue import PROGRAMS, Place
from tests.cli.conftest import Parley, parley_process

SCOPES = ("project", "user")
CASES = [(name, scope) for name in PROGRAMS for scope in SCOPES]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a home and a project in it; the project is where the command is called."""
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PARLEY_HOME", str(tmp_path / "kept"))
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "PARLEY_WORKSPACE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path / "project")
    yield tmp_path
    assert not list(tmp_path.rglob("*.tmp"))


def everything(place: Path) -> dict[str, bytes | str]:
    """Every file with its content and every folder, below the home and the project."""
    found: dict[str, bytes | str] = {}
    for path in sorted([*(place / "home").rglob("*"), *(place / "project").rglob("*")]):
        name = str(path.relative_to(place))
        found[name] = f"link to {path.readlink()}" if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
    return found


def files_of(place: Path, program: str, scope: str) -> list[Path]:
    folder = place / ("project" if scope == "project" else "home")
    return [file.path for file in PROGRAMS[program].files(Place("user" if scope == "user" else "project", folder, {}))]


@pytest.mark.parametrize(("program", "scope"), CASES)
def test_written_rerun_drifted_repaired_and_removed(parley: Parley, place: Path, program: str, scope: str) -> None:
    before = everything(place)
    assert parley("setup", program, "--scope", scope, "--check").code == 1
    assert parley("setup", program, "--scope", scope).code == 0
    there = everything(place)
    assert set(files_of(place, program, scope)) == {
        place / name for name in there.keys() - before.keys() if there[name]
    }
    assert parley("setup", program, "--scope", scope, "--check").code == 0
    assert parley("setup", program, "--scope", scope).stdout == ""
    assert everything(place) == there, "a second time changes nothing"

    for path in files_of(place, program, scope):
        path.write_text(path.read_text().replace("parley", "parsley").replace("parsley:", "parley:"))
    checked = parley("setup", program, "--scope", scope, "--check", "--json")
    assert (checked.code, checked.json["status"]) == (1, "drifted")
    assert {file["state"] for file in checked.json["files"]} <= {"drifted", "missing"}
    for path in files_of(place, program, scope):
        path.write_bytes(there[str(path.relative_to(place))])  # type: ignore[arg-type]
        path.write_text(
            path.read_text().replace('"mcp"\n', '"mpc"\n').replace('"mcp"]', '"mpc"]').replace("Parley is", "Parlay is")
        )
        path.write_text(path.read_text().replace('"timeout": ', '"timeout": 9'))
    assert parley("setup", program, "--scope", scope, "--check").code == 1
    assert parley("setup", program, "--scope", scope).code == 0
    assert everything(place) == there, "drift is repaired"

    assert parley("setup", program, "--scope", scope, "--remove").code == 0
    assert everything(place) == before
    again = parley("setup", program, "--scope", scope, "--remove")
    assert (again.code, again.stdout) == (0, "")


@pytest.mark.parametrize(("program", "scope"), CASES)
def test_files_that_were_there_are_again_what_they_were(parley: Parley, place: Path, program: str, scope: str) -> None:
    contents = {
        ".json": b'{\r\n\t"a": 1, // why\r\n\t"hooks": {}\r\n}',
        ".toml": b"# mine\n[a]\nb = 1",
        ".md": b"# Mine\n\n",
    }
    for path in files_of(place, program, scope):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents.get(path.suffix, b"---\nglobs: x\n---\nMine"))
        path.chmod(0o640)
    before = everything(place)
    assert parley("setup", program, "--scope", scope).code == 0
    for path in files_of(place, program, scope):
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    parley("setup", program, "--scope", scope, "--remove")
    assert everything(place) == before


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_dry_run_shows_the_difference_and_changes_nothing(parley: Parley, place: Path, program: str) -> None:
    before = everything(place)
    shown = parley("setup", program, "--dry-run")
    assert shown.code == 0
    for path in files_of(place, program, "project"):
        assert f"+++ {path}" in shown.stdout
    assert everything(place) == before
    parley("setup", program)
    taken = parley("setup", program, "--remove", "--dry-run")
    assert taken.stdout.count("+++ /dev/null") == len(files_of(place, program, "project"))
    assert parley("setup", program, "--check").code == 0


def test_commands_are_written_by_name_unless_a_path_is_asked_for(parley: Parley, place: Path) -> None:
    for program in PROGRAMS:
        parley("setup", program)
    written = b"".join(content for content in everything(place).values() if isinstance(content, bytes))
    assert str(place).encode() not in written
    assert b'"/' not in written
    parley_process("setup", "cursor", "--absolute")
    text = (place / "project/.cursor/mcp.json").read_text()
    assert '"command": "/' in text
    assert parley("setup", "cursor", "--check").code == 1
    parley("setup", "cursor", "--remove")
    assert not (place / "project/.cursor").exists()


@pytest.mark.parametrize("program", PROGRAMS)
def test_who_asked_for_a_path_is_told_when_a_name_is_checked_for_or_written(
    parley: Parley, place: Path, program: str
) -> None:
    assert parley("setup", program, "--absolute").code == 0
    assert "path" not in parley("setup", program, "--absolute", "--check").stderr
    checked = parley("setup", program, "--check")
    assert checked.code == 1
    assert "check with --absolute" in checked.stderr
    assert "is now called by its name" in parley("setup", program).stderr
    assert "path" not in parley("setup", program, "--check").stderr
    parley("setup", program, "--absolute")
    assert "path" not in parley("setup", program, "--remove").stderr


def test_what_cannot_be_understood_is_refused_and_nothing_is_touched(parley: Parley, place: Path) -> None:
    (place / "project/CLAUDE.md").write_text("<!-- parley:begin -->")
    before = everything(place)
    for options in ((), ("--remove",), ("--check",), ("--dry-run",)):
        refused = parley("setup", "claude-code", "--json", *options)
        assert (refused.code, refused.json["code"]) == (1, "SETUP_REFUSED")
        assert "CLAUDE.md" in refused.json["error"]
    assert everything(place) == before
    (place / "project/CLAUDE.md").write_bytes(b"\xff\xfe")
    assert parley("setup", "claude-code").code == 1
    (place / "project/CLAUDE.md").unlink()
    (place / "project/CLAUDE.md").mkdir()
    assert parley("setup", "claude-code").code == 1
    assert set(everything(place)) == set(before)


def test_a_link_is_followed_and_stays_a_link(parley: Parley, place: Path) -> None:
    (place / "dotfiles").mkdir()
    (place / "dotfiles/claude.json").write_text('{"a": 1}')
    (place / "home/.claude.json").symlink_to("../dotfiles/claude.json")
    before = everything(place)
    parley("setup", "claude-code", "--scope", "user")
    assert (place / "home/.claude.json").is_symlink()
    assert "parley" in (place / "dotfiles/claude.json").read_text()
    parley("setup", "claude-code", "--scope", "user", "--remove")
    assert (place / "dotfiles/claude.json").read_text() == '{"a": 1}'
    assert everything(place) == before


@pytest.mark.parametrize("name", ["CLAUDE.md", ".claude"])
def test_links_in_a_circle_are_refused_and_nothing_is_touched(parley: Parley, place: Path, name: str) -> None:
    (place / "project" / name).symlink_to(name)
    before = everything(place)
    for options in ((), ("--remove",), ("--check",), ("--dry-run",)):
        refused = parley("setup", "claude-code", "--json", *options)
        assert (refused.code, refused.json["code"]) == (1, "SETUP_REFUSED")
        assert name in refused.json["error"]
    assert "claude-code\tunreadable\n" in parley("setup").stdout
    assert everything(place) == before


def test_a_primer_that_two_programs_read_stays_until_both_are_gone(parley: Parley, place: Path) -> None:
    (place / "project/AGENTS.md").write_text("# Rules\n")
    before = everything(place)
    parley("setup", "codex")
    parley("setup", "opencode")
    assert (place / "project/AGENTS.md").read_text().count("parley:begin") == 1
    parley("setup", "codex", "--remove")
    assert "parley:begin" in (place / "project/AGENTS.md").read_text()
    parley("setup", "opencode", "--remove")
    assert everything(place) == before


def test_new_files_of_a_user_are_private_and_folders_that_others_use_stay(parley: Parley, place: Path) -> None:
    parley("setup", "claude-code", "--scope", "user")
    assert stat.S_IMODE((place / "home/.claude.json").stat().st_mode) == 0o600
    (place / "home/.claude/mine").write_text("x")
    parley("setup", "claude-code", "--scope", "user", "--remove")
    assert [path.name for path in (place / "home/.claude").iterdir()] == ["mine"]


def test_the_record_keeps_no_content_of_files(parley: Parley, place: Path) -> None:
    (place / "home/.claude.json").write_text('{"key": "very-secret"}')
    parley("setup", "claude-code", "--scope", "user")
    assert "very-secret" not in (place / "kept/setup.json").read_text()
    assert stat.S_IMODE((place / "kept/setup.json").stat().st_mode) == 0o600
    (place / "kept/setup.json").write_text("{")
    assert parley("setup", "claude-code", "--scope", "user", "--json").json["code"] == "SETUP_REFUSED"


def test_the_places_that_programs_name_in_the_environment_are_used(
    parley: Parley, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program, variable in (
        ("claude-code", "CLAUDE_CONFIG_DIR"),
        ("codex", "CODEX_HOME"),
        ("opencode", "XDG_CONFIG_HOME"),
    ):
        monkeypatch.setenv(variable, str(place / "home" / variable.lower()))
        parley("setup", program, "--scope", "user")
    assert {name.split("/")[1] for name in everything(place)} == {"claude_config_dir", "codex_home", "xdg_config_home"}
    monkeypatch.setenv("HOME", str(place))
    (place / "home/xdg_config_home/opencode/opencode.json").rename(
        place / "home/xdg_config_home/opencode/opencode.jsonc"
    )
    assert parley("setup", "opencode", "--scope", "user", "--check").code == 0


def test_all_programs_are_listed_with_their_state(parley: Parley, place: Path) -> None:
    parley("setup", "gemini")
    (place / "project/.mcp.json").write_text("[")
    listed = {row["program"]: row["state"] for row in parley("setup", "--json").json["programs"]}
    assert listed == {
        "claude-code": "unreadable",
        "codex": "missing",
        "cursor": "missing",
        "gemini": "ok",
        "opencode": "missing",
    }
    assert "gemini\tok\n" in parley("setup").stdout


def test_a_program_that_is_not_known_is_named_with_those_that_are(parley: Parley, place: Path) -> None:
    refused = parley("setup", "emacs")
    assert refused.code == 1
    assert "claude-code, codex, cursor, gemini, opencode" in refused.stderr
    assert parley("setup", "codex", "--check", "--remove").code == 1
