"""A proxy that speaks TLS to a browser and plain HTTP to a hub, as a person would put in front of one."""

import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

CHUNK_BYTES = 64 * 1024


class TlsProxy:
    """Listens on a free port of 127.0.0.1 and passes on what it hears to ``target``, connection by connection."""

    def __init__(self, cert: Path, key: Path) -> None:
        self.target = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        # One thread may read a TLS socket while another writes it; both ends close when either does.
        with (
            suppress(OSError),
            self._context.wrap_socket(caller, server_side=True) as outside,
            socket.create_connection(("127.0.0.1", self.target)) as inside,
        ):
            threading.Thread(target=_pass_on, args=(inside, outside), daemon=True).start()
            _pass_on(outside, inside)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
