"""A repository, the workspace in it, and who works there."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parley.app.make import make_workspace
from parley.app.start import UNLIMITED, start_detached
from parley.app.stop import stop_hub
from parley.cli.root import run
from parley.client import Client
from parley.workspace.layout import Workspace
from tests.guard.repositories import Bob, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A repository with one commit and no workspace."""
    tree = Tree(tmp_path / "repository")
    tree.top.mkdir()
    tree.must("init", "-q", "-b", "main")
    assert tree.commit("README", "src/a.py", "src/b.py", "docs/x.md").code == 0
    return tree


@pytest.fixture
def workspace(tree: Tree) -> Workspace:
    """A workspace at the top of the repository."""
    return make_workspace(tree.top)[0]


@pytest.fixture
def bob(workspace: Workspace) -> Bob:
    return Bob(workspace)


@pytest.fixture
def client(workspace: Workspace) -> Iterator[Client]:
    """A client of the workspace's hub, which runs."""
    start_detached(workspace, UNLIMITED)
    with Client(workspace.root, sender="bob") as client:
        yield client
    stop_hub(workspace, 30)


Guard = Callable[..., int]


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch, tree: Tree) -> Guard:
    """Calls ``parley guard`` in this process, in the repository."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tree.top.parent / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("PARLEY_WORKSPACE", raising=False)
    monkeypatch.chdir(tree.top)

    def call(*arguments: str) -> int:
        return run(["guard", *arguments])

    return call
