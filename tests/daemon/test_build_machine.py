"""On a build machine, which forgets everything, a daemon is ephemeral unless it is told otherwise."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def parley(*words: str, home: str | Path | None, **environment: str) -> tuple[int, dict[str, Any]]:
    argv = [sys.executable, "-P", "-m", "parley", *words, "--json"]
    given = {**os.environ, **({} if home is None else {"PARLEY_DAEMON_HOME": str(home)}), **environment}
    done = subprocess.run(argv, capture_output=True, text=True, env=given, timeout=90, check=False)
    return done.returncode, json.loads(done.stdout or done.stderr)


@pytest.mark.parametrize("variable", ["CI", "GITLAB_CI"])
def test_m14_up_is_ephemeral_on_a_build_machine(tmp_path: Path, variable: str) -> None:
    """Section 2: "CI autodetect -> ephemeral unless `--persistent`: `CI=true GITHUB_ACTIONS GITLAB_CI BUILDKITE
    CIRCLECI JENKINS_URL`"; section 5.9: "CI ephemeral/UDS/hooks off"."""
    own = tmp_path / "own"
    code, up = parley("daemon", "up", home=None, PARLEY_HOME=str(own), **{variable: "true"})
    folder = Path(up["home"])
    try:
        assert (code, up["status"]) == (0, "running")
        assert not folder.is_relative_to(own), "an ephemeral daemon does not use the lasting folder"
        assert up["port"] is None
        assert up.get("ephemeral") is True
        assert folder.is_dir()
        assert parley("daemon", "status", home=folder)[1]["pid"] == up["pid"]
    finally:
        stopped = parley("daemon", "down", home=folder)[1]
    assert stopped["status"] == "stopped"
    assert not folder.exists(), "neither keys nor messages are left"
    assert not own.exists()


@pytest.mark.parametrize(
    ("flags", "environment"),
    [(["--persistent"], {"CI": "true"}), ([], {"CI": "true"}), ([], {"CI": "false"}), ([], {})],
)
def test_a_daemon_lasts_where_it_is_told_to_or_the_machine_does(
    tmp_path: Path, flags: list[str], environment: dict[str, str]
) -> None:
    """Who names its folder wants what is in it to last, on a build machine too."""
    code, up = parley("daemon", "up", *flags, home=tmp_path, **environment)
    try:
        assert (code, up["home"], up["ephemeral"]) == (0, str(tmp_path), False)
    finally:
        parley("daemon", "down", home=tmp_path)
    assert (tmp_path / "outbox.db").exists()


def test_a_message_starts_no_daemon_on_a_build_machine_unless_its_folder_was_named(tmp_path: Path) -> None:
    """Nobody would find it again, and it would outlive what it was started for."""
    code, refused = parley("send", "bob", "hi", home="", HOME=str(tmp_path), CI="true")
    assert (code, refused["code"]) == (3, "DAEMON_NOT_RUNNING")
    assert "parley daemon up" in refused["hint"]
    assert not (tmp_path / ".parley").exists()


def test_it_cannot_be_both(tmp_path: Path) -> None:
    code, refused = parley("daemon", "up", "--ephemeral", "--persistent", home=tmp_path)
    assert (code, refused["code"]) == (1, "INVALID_INPUT")
