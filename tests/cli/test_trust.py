"""``parley trust``: what is shown, who is asked, and what takes the trust away again."""

import os
import stat
from pathlib import Path

import pytest

from parley.workspace import discovery
from tests.cli.conftest import Parley, parley_process

SOURCE = "def enrich(message, config):\n    return []\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home is not that of who runs the tests."""
    monkeypatch.setenv("PARLEY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def root(tmp_path: Path, home: Path) -> Path:
    """A workspace with a plugin of its own."""
    root = tmp_path / "work"
    root.mkdir()
    discovery.create(root)
    (root / "plugins").mkdir()
    (root / "plugins" / "own.py").write_text(SOURCE)
    (root / "parley.toml").write_text(
        '[[plugins]]\nname = "own"\ntype = "linkifier"\nmodule = "plugins/own.py"\nnetwork = true\n'
        "deadline_seconds = 2.5\n"
        '[[plugins]]\nname = "links"\ntype = "linkifier"\n'
    )
    return root


def test_what_would_run_and_what_it_may_do_is_shown(parley: Parley, root: Path) -> None:
    shown = parley("trust", "--yes", "-w", root)
    assert shown.code == 0
    assert "own (linkifier)" in shown.stdout
    assert "plugins/own.py (sha256 " in shown.stdout
    assert "network: yes, deadline: 2.5 s, memory: 256 MiB" in shown.stdout
    assert "It sees none of your files" in shown.stdout
    assert "links" not in shown.stdout, "a built-in needs no trust"
    assert shown.stdout.rstrip().endswith("Trusted. A running hub starts them by itself.")


def test_nobody_there_to_ask_means_no(parley: Parley, root: Path, home: Path) -> None:
    for flags in ((), ("--json",)):
        refused = parley("trust", "-w", root, *flags)
        assert refused.code == 1
        assert "add --yes" in refused.stderr + refused.stdout
    assert not (home / "trust.json").exists()


def test_it_is_trusted_until_something_changes(parley: Parley, root: Path) -> None:
    first = parley("trust", "--yes", "--json", "-w", root).json
    assert (first["needed"], first["trusted"], first["changed"]) == (True, True, [])
    assert first["plugins"][0]["files"].keys() == {"plugins/own.py"}
    assert parley("trust", "-w", root).stdout == "They are trusted already.\n"
    assert parley("plugin", "list", "--json", "-w", root).json["plugins"][0]["state"] == "ready"
    (root / "plugins" / "own.py").write_text(SOURCE + "# more\n")
    assert parley("plugin", "list", "--json", "-w", root).json["plugins"][0]["state"] == "untrusted"
    assert "plugins/own.py has changed" in parley("trust", "-w", root).stdout
    again = parley("trust", "--yes", "-w", root)
    assert "Since you trusted this workspace: plugins/own.py has changed." in again.stdout
    (root / "parley.toml").write_text((root / "parley.toml").read_text() + "\n[hub]\nport = 4000\n")
    assert "parley.toml has changed" in parley("trust", "-w", root).stdout


def test_trust_is_the_users_and_private(parley: Parley, root: Path, home: Path) -> None:
    parley("trust", "--yes", "-w", root)
    assert stat.S_IMODE((home / "trust.json").stat().st_mode) == 0o600
    listed = parley("trust", "--list")
    assert listed.stdout.startswith(f"{root}\t2")
    assert parley("trust", "--list", "--json").json["workspaces"][0]["workspace_root"] == str(root)


def test_trust_can_be_revoked(parley: Parley, root: Path) -> None:
    parley("trust", "--yes", "-w", root)
    assert parley("trust", "--revoke", "-w", root).stdout.startswith("The trust is taken away.")
    assert parley("trust", "--revoke", "--json", "-w", root).json["revoked"] is False
    assert parley("trust", "--revoke", "-w", root).stdout == "There was none.\n"
    assert parley("trust", "--list").stderr == "No workspace is trusted.\n"
    assert parley("plugin", "list", "--json", "-w", root).json["plugins"][0]["state"] == "untrusted"


def test_built_ins_alone_need_none(parley: Parley, root: Path) -> None:
    (root / "parley.toml").write_text('[[plugins]]\nname = "links"\ntype = "linkifier"\n')
    assert parley("trust", "-w", root).stdout == "No plugin here needs your trust.\n"
    assert parley("trust", "--json", "-w", root).json["needed"] is False


def test_a_broken_plugin_is_shown_as_such(parley: Parley, root: Path) -> None:
    (root / "plugins" / "own.py").write_text("def (")
    assert "problem: own.py, line 1: invalid syntax" in parley("trust", "-w", root).stdout


def test_the_flags_exclude_each_other(parley: Parley, root: Path) -> None:
    assert parley("trust", "--yes", "--revoke", "-w", root).code == 1


@pytest.mark.parametrize(("answer", "code", "trusted"), [("y", 0, True), ("n", 1, False), ("", 1, False)])
def test_at_a_terminal_the_user_is_asked(root: Path, home: Path, answer: str, code: int, trusted: bool) -> None:
    ours, theirs = os.openpty()
    try:
        os.write(ours, answer.encode() + b"\n")
        asked = parley_process("trust", "-w", root, stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert asked.code == code
    assert "Trust them as they are now? [y/N]" in asked.stderr
    assert (home / "trust.json").exists() is trusted


def test_doctor_warns_of_what_is_not_trusted_and_fails_for_what_is_broken(parley: Parley, root: Path) -> None:
    def checks() -> list[tuple[str, str]]:
        report = parley("doctor", "--json", "-w", root).json
        return [(check["status"], check["message"]) for check in report["checks"] if check["name"] == "plugins"]

    assert checks() == [("warn", "Not trusted, so not run: own")]
    parley("trust", "--yes", "-w", root)
    assert checks() == [("ok", "2 configured")]
    (root / "plugins" / "own.py").unlink()
    assert checks() == [("error", "own: plugins/own.py does not exist")]
