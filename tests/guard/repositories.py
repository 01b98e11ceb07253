"""Real git repositories with a workspace in them, in which somebody holds leases."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import apsw

from parley.core.clock import SystemClock
from parley.core.ids import IdSource
from parley.core.settings import LeaseSettings
from parley.hub.rules import leases
from parley.hub.transaction import Tx
from parley.sqlite import open_writer
from parley.wire.entities import Lease, LeaseMode
from parley.wire.requests import AcquireLease, ReleaseLease
from parley.workspace.layout import Workspace
from parley.workspace.queries import largest_ids

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Ran:
    """How a command of git ended."""

    code: int
    said: str


@dataclass(frozen=True)
class Tree:
    """A working tree, in which an agent works."""

    top: Path
    agent: str = "ann"

    def git(self, *arguments: str, **environment: str) -> Ran:
        """Calls git as a person would, with a home that is not the tester's."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.top,
            env={
                **kept,
                "PATH": f"{BIN}:{os.environ['PATH']}",
                "HOME": str(self.top.parent),
                "GIT_CONFIG_GLOBAL": str(self.top.parent / "gitconfig"),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_AUTHOR_NAME": "t",
                "GIT_AUTHOR_EMAIL": "t@example.com",
                "GIT_COMMITTER_NAME": "t",
                "GIT_COMMITTER_EMAIL": "t@example.com",
                "PARLEY_AGENT": self.agent,
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout + done.stderr)

    def must(self, *arguments: str) -> str:
        done = self.git(*arguments)
        assert done.code == 0, done.said
        return done.said

    def write(self, path: str, text: str = "x\n") -> None:
        (self.top / path).parent.mkdir(parents=True, exist_ok=True)
        (self.top / path).write_text(text)

    def commit(self, *paths: str, **environment: str) -> Ran:
        """Changes these files and commits them."""
        for path in paths:
            self.write(path, f"{os.urandom(4).hex()}\n")
        self.must("add", "-A")
        return self.git("commit", "-m", "change", **environment)


@dataclass(frozen=True)
class Bob:
    """Somebody else, who leases paths by the hub's own rules; no hub has to run for that."""

    workspace: Workspace

    def lease(
        self, *patterns: str, holder: str = "bob", mode: LeaseMode = "exclusive", reason: str | None = None
    ) -> Lease:
        request = AcquireLease(holder, list(patterns), mode, reason, 3600)
        with open_writer(self.workspace.db) as connection, connection:
            result = leases.acquire_lease(_tx(connection), request, LeaseSettings())
        return result.lease

    def release(self, lease: Lease) -> None:
        request = ReleaseLease(lease.holder, lease.generation, None)
        with open_writer(self.workspace.db) as connection, connection:
            leases.release_lease(_tx(connection), lease.id, request)


def _tx(connection: apsw.Connection) -> Tx:
    return Tx(connection, SystemClock().now_ms(), IdSource(largest_ids(connection)))
