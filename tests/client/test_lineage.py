"""Who is started by an agent's program takes part as that agent, however deep, and nobody else does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parley.app.make import make_workspace
from parley.client import lineage
from parley.client.identity import current_session, session_of_tools, whoami
from parley.client.lineage import Process, ancestors, announce, announced, own_program
from parley.workspace.layout import Workspace

WHO = (
    "import sys; from pathlib import Path; from parley.client.identity import whoami; from parley.workspace import"
    " discovery; print(whoami(discovery.at(Path(sys.argv[1]))).name)"
)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.delenv("PARLEY_AGENT", raising=False)
    return make_workspace(tmp_path)[0]


def me() -> Process:
    """This process, as one that it has started sees it."""
    code = "from parley.client.lineage import ancestors; print(repr(next(ancestors())))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    process = eval(told, {"Process": Process})
    assert process.pid == os.getpid()
    return process


def who_is_below(workspace: Workspace, *before: str) -> str:
    argv = [*before, sys.executable, "-c", WHO, str(workspace.root)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_what_a_program_starts_has_the_name_of_its_agent(workspace: Workspace) -> None:
    announce(workspace, me(), name="brisk-otter", program="some-program", session="s")
    assert who_is_below(workspace) == "brisk-otter"
    assert who_is_below(workspace, "sh", "-c", '"$@"; exit $?', "sh", "setsid", "-w") == "brisk-otter"
    assert announced(workspace) is None, "this process is the program, and not below it"


def test_the_word_of_a_person_counts_for_more(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    announce(workspace, me(), name="brisk-otter", program="some-program", session="s")
    monkeypatch.setenv("PARLEY_AGENT", "ada")
    assert who_is_below(workspace) == "ada"


def test_a_number_that_is_used_again_is_another_process(workspace: Workspace) -> None:
    earlier = me()._replace(began="long ago")
    announce(workspace, earlier, name="brisk-otter", program="some-program", session="s")
    assert who_is_below(workspace) != "brisk-otter"


def test_what_ended_programs_left_is_cleared_away(workspace: Workspace) -> None:
    announce(workspace, me(), name="one", program="p", session="s")
    (workspace.agents / "process-999999999.json").write_bytes(
        (workspace.agents / f"process-{os.getpid()}.json").read_bytes().replace(b'"pid":', b'"pid":99999')
    )
    (workspace.agents / "process-1.json").write_text("{")
    announce(workspace, me(), name="two", program="p", session="s")
    assert [path.name for path in workspace.agents.glob("process-*")] == [f"process-{os.getpid()}.json"]


def test_tools_are_an_agent_of_their_own_even_below_another(workspace: Workspace) -> None:
    parent = next(ancestors())
    announce(workspace, parent, name="outer", program="p", session="s")
    assert whoami(workspace).name == "outer"
    mine = session_of_tools(workspace, me())
    assert whoami(workspace, program="p", session=mine).name != "outer"


def test_two_programs_in_one_terminal_are_two_agents_and_tools_that_come_back_are_the_same(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_SESSION", raising=False)
    first, second = next(ancestors()), me()
    session = session_of_tools(workspace, first)
    assert session == current_session()
    announce(workspace, first, name="one", program="p", session=session)
    assert session_of_tools(workspace, first) == session
    other = session_of_tools(workspace, second)
    assert other != session
    announce(workspace, second, name="two", program="p", session=other)
    assert session_of_tools(workspace, second) == other
    monkeypatch.setenv("PARLEY_SESSION", "told")
    assert session_of_tools(workspace, second) == "told"


def test_shells_and_launchers_are_not_the_program() -> None:
    code = "from parley.client.lineage import own_program; print(own_program().pid)"
    direct = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    argv = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", code]
    through_a_shell = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert int(direct.stdout) == int(through_a_shell.stdout) == os.getpid()
    assert own_program() is None or own_program().pid != os.getpid()  # type: ignore[union-attr]


def test_without_a_proc_file_system_ps_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ps").write_text('#!/bin/sh\necho "  7 Tue Nov 17 09:00:00 2026 /usr/bin/some program"\n')
    (tmp_path / "ps").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(lineage, "_PROC", tmp_path / "none")
    assert next(ancestors()) == Process(7, 7, "some program", "Tue Nov 17 09:00:00 2026")
    (tmp_path / "ps").write_text("#!/bin/sh\nexit 1\n")
    assert list(ancestors()) == []
