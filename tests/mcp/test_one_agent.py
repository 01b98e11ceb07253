"""An agent's tools, its wake-up hooks and the git in its shell know it by one name, since one program started them."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from parley.client import connect
from tests.client.hubs import HubProcess
from tests.guard.repositories import Tree
from tests.mcp.agents import CALL_SECONDS, Agent, command


@pytest.fixture(autouse=True)
def nobody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PARLEY_AGENT", "PARLEY_SESSION", "PARLEY_WORKSPACE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PARLEY_HOOK_SECONDS", "60")


def wake(root: Path, moment: str) -> str:
    said = json.dumps({"session_id": "s", "cwd": str(root), "stop_hook_active": False})
    argv = [sys.executable, "-m", "parley", "hook", moment, "--program", "claude-code"]
    return subprocess.run(argv, input=said, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture
def tree(root: Path) -> Tree:
    """The workspace as a repository with the guard in it."""
    tree = Tree(root)
    (root / "parley.toml").write_text('[guard]\nmode = "block"\n')
    tree.must("init", "-q")
    subprocess.run([sys.executable, "-m", "parley", "guard", "install"], cwd=root, check=True)
    return tree


async def test_tools_hooks_and_guard_are_one_agent(hub: HubProcess, root: Path, tree: Tree) -> None:
    program, *arguments = command(root)
    server = StdioServerParameters(command=program, args=arguments, env={})
    async with Client(server, read_timeout_seconds=CALL_SECONDS) as client:
        agent = Agent(client)
        posted = await agent.call("post", channel="general", title="Mine", content="I begin")
        await agent.call("lease", paths=["a.py"])
        assert await asyncio.to_thread(wake, root, "session-start") == "", "what one said oneself is no news"
        with connect(root, sender="ann") as ann:
            [me] = [each.name for each in ann.list_agents().agents]
            ann.send_message(posted["topic_id"], "An answer")
            ann.acquire_lease(["b.py"], "ann")
        told = await asyncio.to_thread(wake, root, "before-stop")
        assert '(1 for you) from \\"ann\\"' in told
        assert f'You are \\"{me}\\"' in told
        tree.write("a.py")
        tree.must("add", "a.py")
        done = await asyncio.to_thread(tree.git, "commit", "-m", "own lease", PARLEY_AGENT="")
        assert (done.code, "leased" in done.said) == (0, False)
        tree.write("b.py")
        tree.must("add", "b.py")
        done = await asyncio.to_thread(tree.git, "commit", "-m", "somebody else's", PARLEY_AGENT="")
        assert "b.py is leased by ann" in done.said
        assert done.code != 0
