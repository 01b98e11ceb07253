"""The real hub in a process of its own, without paying for its imports each time.

A parent process has imported everything and does nothing but fork; the child then runs what ``parley up`` runs. A start
takes tens of milliseconds instead of the better part of a second, so a campaign can afford a thousand of them.
"""

import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from bench.load.process import STOP_SECONDS, NotReady, Process
from parley.app.start import UNLIMITED, serve
from parley.core.errors import ParleyError
from parley.workspace import discovery
from tests.campaign.forkserver import forkserver

START_SECONDS = 60.0
_context = forkserver("parley.app.start", "parley.hub.lifecycle", "parley.serve.logs", "tests.campaign.files.strike")


class ForkedStart(Process):
    """A start on its way; it waits for ``go`` if there is one. Where it leads to is its ``outcome``."""

    def __init__(self, folder: Path, go: Event | None = None, before: Callable[[], None] | None = None) -> None:
        """``before`` is run in the process before anything else."""
        self._report, theirs = _context.Pipe(duplex=False)
        self._process = _context.Process(target=_serve, args=(folder, theirs, go, before))
        self._process.start()
        theirs.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while the process runs."""
        return self._process.exitcode

    def outcome(self) -> dict[str, Any]:
        """What the hub announced, or why it could not start; empty if it ended without a word."""
        if not self._report.poll(START_SECONDS):
            raise NotReady("the hub did not start in time")
        try:
            said: dict[str, Any] = self._report.recv()
        except EOFError:
            said = {}
        if said.get("status") != "running":
            self._process.join()
        return said

    def kill(self, after_seconds: float = 0.0) -> None:
        self._process.join(after_seconds)
        self._process.kill()
        self._process.join()
        self._report.close()

    def stop(self) -> int:
        self._process.terminate()
        self.kill(after_seconds=STOP_SECONDS)
        return self._process.exitcode or 0


class ForkedHub(ForkedStart):
    """A hub that serves the folder; made only when it answers."""

    def __init__(self, folder: Path, before: Callable[[], None] | None = None) -> None:
        super().__init__(folder, before=before)
        said = self.outcome()
        if said.get("status") != "running":
            self.kill()
            raise NotReady(f"the hub ended with code {self.exit_code}: {said}")


def starting_gun() -> Event:
    """An event that lets many starts go at once."""
    return _context.Event()


def _serve(folder: Path, report: Connection, go: Event | None, before: Callable[[], None] | None) -> None:
    if go is not None:
        go.wait()
    if before is not None:
        before()
    with report:
        try:
            sys.exit(serve(discovery.create(folder), UNLIMITED, on_ready=report.send, log_to_file=True))
        except ParleyError as error:
            report.send({"status": "error", "error": str(error), "details": error.details})
            sys.exit(error.exit_code)
