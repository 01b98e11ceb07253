"""A hub-like process to attack, as root and as an ordinary user: each test runs with both."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.sandbox import Policy, missing
from tests.sandbox.ordinary import REPOSITORY, UID

SECONDS = 60.0
"""How long a program in a jail may take: it gives way to all others, and a busy machine has little left for it."""


def patient(**settings: Any) -> Policy:
    """A policy under which only what a test means to end is ended."""
    return Policy(**{"deadline_seconds": SECONDS, **settings})


class Owner:
    """The hub-like process, from the outside."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=REPOSITORY
        )
        ready = self._read()
        self.missing, self.uid, self.pid = ready["missing"], ready["uid"], ready["pid"]

    def run(self, code: str, *, extra: dict[str, Any] | None = None, **policy: Any) -> dict[str, Any]:
        """Runs a program in the sandbox; settings of its policy by name. ``harm`` is what it did to the hub."""
        return self._ask(jailed=True, code=code, policy={"deadline_seconds": SECONDS, **policy}, extra=extra or {})

    def run_plainly(self, programs: dict[str, str], *, extra: dict[str, Any] | None = None) -> dict[str, Any]:
        """Runs each program without the sandbox: what each has harmed, and what it said."""
        return self._ask(jailed=False, attempts=programs, extra=extra or {})

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        return self._read()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the hub-like process is gone"
        return json.loads(line)


def need(what: tuple[str, ...]) -> None:
    """Without a sandbox nothing here can be tested. Elsewhere that is a reason to skip; in CI it must be seen."""
    if what:
        reason = "no sandbox here: " + " ".join(what)
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


@pytest.fixture
def sandbox() -> None:
    """For tests that own a jail themselves, as whoever runs them."""
    need(missing())


@pytest.fixture(scope="session", params=["root", "ordinary"])
def owner(request: pytest.FixtureRequest) -> Iterator[Owner]:
    am_root = os.getuid() == 0
    if request.param == "root" and not am_root:
        pytest.skip("only root can be root")
    need(missing())
    folder = Path(tempfile.mkdtemp(prefix="parley-hub-like-"))
    module = ["tests.sandbox.hub_like", str(folder)]
    if request.param == "ordinary" and am_root:
        os.chown(folder, UID, UID)
        module = ["tests.sandbox.ordinary", *module]
    owner = Owner([sys.executable, "-m", *module], folder)
    try:
        need(tuple(owner.missing))
        assert (owner.uid == 0) == (request.param == "root")
        yield owner
    finally:
        owner.close()
        shutil.rmtree(folder)
