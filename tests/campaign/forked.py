"""The real hub in a process of its own, without paying for its imports each time.

A parent process has imported everything and does nothing but fork; the child then runs what ``parley up`` runs. A start
takes tens of milliseconds instead of the better part of a second, so a campaign can afford a thousand of them.
"""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

from bench.load.process import STOP_SECONDS, NotReady, Process
from parley.app.start import UpOptions, serve
from parley.workspace import discovery

START_SECONDS = 60.0
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["parley.app.start", "parley.hub.lifecycle", "parley.serve.logs"])


class ForkedHub(Process):
    """A hub that serves the folder; made only when it answers."""

    def __init__(self, folder: Path) -> None:
        ours, theirs = _context.Pipe(duplex=False)
        self._process = _context.Process(target=_serve, args=(folder, theirs))
        self._process.start()
        theirs.close()
        with ours:
            try:
                if not ours.poll(START_SECONDS):
                    raise NotReady("the hub did not start in time")
                ours.recv()
            except EOFError:
                raise NotReady(f"the hub ended with code {self.stop()}") from None
        assert self._process.pid is not None
        self.pid = self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def stop(self) -> int:
        self._process.terminate()
        self._process.join(STOP_SECONDS)
        self.kill()
        return self._process.exitcode or 0


def start_and_kill(folder: Path, after_seconds: float) -> None:
    """A start that is killed after so long, wherever it has got to."""
    ours, theirs = _context.Pipe(duplex=False)
    process = _context.Process(target=_serve, args=(folder, theirs))
    process.start()
    process.join(after_seconds)
    process.kill()
    process.join()
    for end in (ours, theirs):
        end.close()


def _serve(folder: Path, ready: Connection) -> None:
    with ready:
        serve(discovery.create(folder), UpOptions(rate_limit=False), on_ready=ready.send, log_to_file=True)
