"""A process with everything that a hub has to lose: a database, a token, sockets, a process id, open descriptors.

It runs attempts on all that, in the sandbox or without it, and tells after each one what was harmed. Requests and
answers are JSON, line by line. Its state is made again before each attempt.
"""

import ctypes
import json
import os
import secrets
import signal
import socket
import sqlite3
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from parley.sandbox import JailError, Policy, missing, run
from parley.sandbox.view import interpreter
from tests.sandbox.attempts import EACH, PRELUDE

PR_SET_PTRACER = 0x5961_6D61
ANYBODY = ctypes.c_ulong(-1)


class HubLike:
    """The treasure, and a count of who touched it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = "token-" + secrets.token_hex(16)
        self.db, self.wal = folder / "db.sqlite3", folder / "db.sqlite3-wal"
        self.signals = 0
        self.descriptor = -1
        signal.signal(signal.SIGUSR1, self._on_signal)
        # Where Yama lets only parents trace, the attempt without a sandbox must still be able to.
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANYBODY, 0, 0, 0)
        self.in_memory = ctypes.create_string_buffer(self.token.encode())
        for name in ("token", "server.json"):
            (folder / name).write_text(self.token)
            (folder / name).chmod(0o600)
        self._listen()
        self.restore()

    def _listen(self) -> None:
        tcp4 = socket.create_server(("127.0.0.1", 0))
        tcp6 = socket.create_server(("::1", tcp4.getsockname()[1]), family=socket.AF_INET6)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        self.abstract = f"\0parley-test-{secrets.token_hex(8)}"
        unix = [socket.socket(socket.AF_UNIX, kind) for kind in (socket.SOCK_STREAM,) * 2 + (socket.SOCK_DGRAM,) * 2]
        self.unix_path, self.unix_dgram_path = str(self.folder / "hub.sock"), str(self.folder / "dgram.sock")
        for each, address in zip(
            unix, (self.unix_path, self.abstract, self.unix_dgram_path, self.abstract + "-dgram"), strict=True
        ):
            each.bind(address)
        for each in unix[:2]:
            each.listen()
        self.port, self.udp_port = tcp4.getsockname()[1], udp.getsockname()[1]
        self.listeners, self.receivers = [tcp4, tcp6, *unix[:2]], [udp, *unix[2:]]
        for each in (*self.listeners, *self.receivers):
            each.setblocking(False)

    def restore(self) -> None:
        """The treasure as it was, and the descriptor that a careless hub would let its children inherit."""
        for path in self.folder.glob("*"):
            if not path.is_socket() and path.name not in ("token", "server.json"):
                path.unlink()
        connection = sqlite3.connect(self.db)
        connection.execute("CREATE TABLE messages (content TEXT)")
        connection.execute("INSERT INTO messages VALUES ('as it was')")
        connection.commit()
        connection.close()
        self.before = self.db.read_bytes()
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = os.open(self.db, os.O_RDWR)
        os.set_inheritable(self.descriptor, True)
        self.signals = 0

    def facts(self) -> dict[str, Any]:
        """All that an attacker could know."""
        return {
            "db": str(self.db),
            "token_file": str(self.folder / "token"),
            "server_file": str(self.folder / "server.json"),
            "folder": str(self.folder),
            "port": self.port,
            "udp_port": self.udp_port,
            "unix_path": self.unix_path,
            "unix_dgram_path": self.unix_dgram_path,
            "abstract": self.abstract,
            "pid": os.getpid(),
            "descriptor": self.descriptor,
            "address_of_token": ctypes.addressof(self.in_memory),
            "token_bytes": len(self.token),
        }

    def harm(self, said: bytes) -> list[str]:
        """What an attempt has done."""
        found: list[str] = []
        if self.db.is_symlink() or not self.db.exists() or self.db.read_bytes() != self.before or self.wal.exists():
            found.append("database")
        if self.token.encode() in said:
            found.append("secret")
        for listener in self.listeners:
            with suppress(BlockingIOError):
                listener.accept()[0].close()
                found.append("connection")
        for receiver in self.receivers:
            with suppress(BlockingIOError):
                receiver.recv(100)
                found.append("connection")
        if self.signals:
            found.append("signal")
        if b"DONE" in said:
            found.append("done")
        return sorted(set(found))

    def run(self, code: str, *, policy: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        """Runs a program in the sandbox."""
        self.restore()
        policy["readable"] = tuple(Path(path) for path in policy.get("readable", ()))
        facts = json.dumps({**self.facts(), **extra})
        try:
            finished = run([str(interpreter()), "-I", "-S", "-c", PRELUDE + code, facts], Policy(**policy))
        except JailError as error:
            return {"reason": error.reason, "message": error.message, "harm": self.harm(b"")}
        said = {"stdout": finished.stdout.decode(), "stderr": finished.stderr.decode()}
        return {**said, "exit_code": finished.exit_code, "harm": self.harm(finished.stdout)}

    def run_plainly(self, attempts: dict[str, str], extra: dict[str, Any]) -> dict[str, Any]:
        """Runs each attempt as a plain child, which inherits what a child does; what each harmed, and what it said."""
        known: dict[str, Any] = {}
        sys.argv[1:] = [json.dumps({**self.facts(), **extra})]
        exec(PRELUDE + EACH, known)
        results: dict[str, Any] = {}
        for name, code in attempts.items():
            self.restore()
            known["facts"] = {**self.facts(), **extra}
            said = known["outcome_of"](code)
            results[name] = {"harm": self.harm(said.encode()), "said": said}
        return results

    def _on_signal(self, number: int, frame: object) -> None:
        self.signals += 1


def main() -> None:
    hub = HubLike(Path(sys.argv[1]))
    os.chdir(hub.folder)
    print(json.dumps({"missing": missing(), "uid": os.getuid(), "pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        method = hub.run if request.pop("jailed") else hub.run_plainly
        print(json.dumps(method(**request)), flush=True)


if __name__ == "__main__":
    main()
