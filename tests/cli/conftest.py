"""Calls of the command line: in this process for most tests, as a real process where that is the point."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from parley.cli.root import run


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
        [sys.executable, "-m", "parley", *map(str, args)], capture_output=True, text=True, timeout=60, **options
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr)
