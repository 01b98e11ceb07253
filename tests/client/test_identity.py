"""Who am I: one name for one session, kept, and never taken from a person who chose it."""

from pathlib import Path

import pytest

from parley.client.identity import current_session, keep_name, whoami
from parley.core.limits import AGENT_TEXT_CHARS_MAX
from parley.workspace import discovery
from parley.workspace.layout import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return discovery.create(tmp_path)


def test_a_chosen_name_is_taken_as_it_is(workspace: Workspace) -> None:
    identity = whoami(workspace, program="editor", environ={"PARLEY_AGENT": "overseer"})
    assert (identity.name, identity.chosen, identity.session) == ("overseer", True, "agent overseer")
    assert whoami(workspace, session="s", environ={"PARLEY_AGENT": "overseer"}).session == "s"
    assert not workspace.agents.exists()


def test_a_session_has_the_same_name_again_and_another_session_another(workspace: Workspace) -> None:
    first = whoami(workspace, program="editor", session="one", environ={})
    assert whoami(workspace, program="editor", session="one", environ={}) == first
    assert first.file is not None
    assert (first.file.stat().st_mode & 0o777, first.file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    names = {whoami(workspace, program="editor", session=f"{number}", environ={}).name for number in range(5)}
    assert len(names) == 5


def test_a_name_that_was_kept_wins_over_the_one_that_would_be_made(workspace: Workspace) -> None:
    first = whoami(workspace, session="one", environ={})
    assert keep_name(first, "brisk-otter-2").name == "brisk-otter-2"
    assert whoami(workspace, session="one", environ={}).name == "brisk-otter-2"


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": 3}', b"\xff"])
def test_a_file_that_cannot_be_read_is_written_anew(workspace: Workspace, content: bytes) -> None:
    first = whoami(workspace, session="one", environ={})
    assert first.file is not None
    first.file.write_bytes(content)
    assert whoami(workspace, session="one", environ={}) == first
    assert b'"name"' in first.file.read_bytes()


def test_where_nothing_can_be_kept_the_name_is_the_same_nevertheless(workspace: Workspace) -> None:
    workspace.agents.write_text("in the way of a folder")
    first = whoami(workspace, session="one", environ={})
    assert whoami(workspace, session="one", environ={}).name == first.name
    assert whoami(None, session="one", environ={}).name == first.name


def test_the_session_is_what_the_program_says_else_the_environment_else_the_terminal() -> None:
    assert current_session({"PARLEY_SESSION": " mine ", "TMUX_PANE": "%1"}) == "mine"
    assert current_session({"TMUX_PANE": "%1", "TERM_SESSION_ID": "x"}) == "TMUX_PANE %1"
    assert current_session({}).startswith("sid ")
    assert current_session({}) == current_session({})


def test_a_session_of_any_length_can_be_told_to_a_hub(workspace: Workspace) -> None:
    assert len(whoami(workspace, session="x" * 1000, environ={}).session) == AGENT_TEXT_CHARS_MAX
