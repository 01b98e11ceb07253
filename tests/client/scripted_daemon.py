"""A daemon's socket where a test says what is answered, as bytes."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parley.wire.daemon_home import DaemonHome

SECONDS = 60


class ScriptedDaemon:
    """Takes one request on each connection, answers it with the next bytes of the script, and hangs up.

    What has run out of script, or is given None, is taken and never answered.
    """

    def __init__(self, home: DaemonHome, script: list[bytes | None], late_seconds: float) -> None:
        self.home = home
        self.requests: list[bytes] = []
        self.asked = threading.Event()
        """Set as soon as there is a request."""
        self._script = script
        self._late_seconds = late_seconds
        self._open: list[socket.socket] = []
        home.root.mkdir(mode=0o700, exist_ok=True)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(home.socket))
        self._listening.listen(16)
        self._serving = threading.Thread(target=self._serve)
        self._serving.start()

    def close(self) -> None:
        """Ends as a process does: whoever waits for an answer gets none. May be called again."""
        if not self._serving.is_alive():
            return
        self._listening.shutdown(socket.SHUT_RDWR)
        self._serving.join(SECONDS)
        self._listening.close()
        self.home.socket.unlink()  # before anybody is told, who might start another daemon there
        for each in self._open:
            each.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            request = _request(connection)
            if not request:  # somebody looked whether anybody listens
                connection.close()
                continue
            self.requests.append(request)
            self.asked.set()
            answer = self._script.pop(0) if self._script else None
            if answer is None:
                self._open.append(connection)
                continue
            time.sleep(self._late_seconds)
            with suppress(BrokenPipeError):
                connection.sendall(answer)
            connection.close()


def answer(body: bytes, status: str = "200 OK") -> bytes:
    """An answer as it stands on the line."""
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


def stream(text: str) -> bytes:
    """A stream of events, which ends with the connection."""
    return b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + text.encode()


Scripted = Callable[..., ScriptedDaemon]


@contextmanager
def scripting(folder: Path) -> Iterator[Scripted]:
    """Makes scripted daemons, which end with the test."""
    made: list[ScriptedDaemon] = []

    def script(*answers: bytes | None, late_seconds: float = 0.0) -> ScriptedDaemon:
        daemon = ScriptedDaemon(DaemonHome(folder / f"daemon-{len(made)}"), list(answers), late_seconds)
        made.append(daemon)
        return daemon

    try:
        yield script
    finally:
        for each in made:
            each.close()


def _request(connection: socket.socket) -> bytes:
    """The whole request; nothing if the caller leaves before."""
    connection.settimeout(SECONDS)
    data = b""
    while True:
        head, found, body = data.partition(b"\r\n\r\n")
        if found and len(body) >= _length(head):
            return data
        chunk = connection.recv(65_536)
        if not chunk:
            return b""
        data += chunk


def _length(head: bytes) -> int:
    sizes = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return int(sizes[0]) if sizes else 0
