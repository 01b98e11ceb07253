"""Calls of the command line: in this process for most tests, as a real process where that is the point."""

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from parley.app.start import UNLIMITED, start_detached
from parley.app.stop import stop_hub
from parley.cli.root import run
from parley.workspace import discovery


@dataclass(frozen=True)
class Ran:
    """What a call printed, and how it ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


Parley = Callable[..., Ran]


@pytest.fixture
def parley(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Parley:
    """Calls a command in this process."""

    def call(*args: str | Path, stdin: str = "") -> Ran:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            code = run([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


def parley_process(*args: str | Path, **options: Any) -> Ran:
    """Calls a command as a process of its own, and waits for its end."""
    ended = subprocess.run(
        [sys.executable, "-m", "parley", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr)


@dataclass
class Serving:
    """A hub that several tests share; each works in a channel of its own."""

    root: Path
    numbers: Iterator[int] = field(default_factory=count)

    def new_name(self) -> str:
        return f"channel-{next(self.numbers)}"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A real hub, without rate limits, that ends with the module."""
    workspace = discovery.create(tmp_path_factory.mktemp("workspace"))
    start_detached(workspace, UNLIMITED)
    yield Serving(workspace.root)
    stop_hub(workspace, 30)
