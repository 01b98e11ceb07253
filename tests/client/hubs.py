"""Real hubs for the client's tests: processes that are stopped, killed and started again, and a network that loses."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from parley.wire.server_file import ServerFile
from parley.workspace import discovery
from parley.workspace.layout import Workspace

DEADLINE_SECONDS = 60


class HubProcess:
    """The hub of one workspace, run in the foreground of a process of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str, limited: bool = False) -> "HubProcess":
        """Returns when the hub answers. It serves every request, unless it is to be ``limited`` as its settings say."""
        argv = [sys.executable, "-m", "parley", "up", "--workspace", str(self.root), "--json"]
        argv += [] if limited else ["--no-rate-limit"]
        with (self.root / "hub.stderr").open("ab") as stderr:
            self._process = subprocess.Popen([*argv, *flags], stdout=subprocess.PIPE, stderr=stderr)
        self._await_announcement(self._process)
        return self

    def stop(self) -> None:
        """A clean stop; returns when the process has ended."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """The end of a process that had no chance to say anything."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """Asks for a clean stop and returns at once."""
        assert self._process is not None
        self._process.terminate()

    @property
    def workspace(self) -> Workspace:
        return discovery.at(self.root)

    @property
    def server(self) -> ServerFile:
        return msgspec.json.decode(self.workspace.server_file.read_bytes(), type=ServerFile)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.wait(DEADLINE_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def _await_announcement(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        text = b""
        for line in process.stdout:
            text += line
            with suppress(json.JSONDecodeError):
                assert json.loads(text)["status"] == "running"
                return
        raise AssertionError(f"the hub did not start: {(self.root / 'hub.stderr').read_text()}")


def fresh_name(word: str) -> str:
    """A name that no other test of the module has taken."""
    return f"{word}-{uuid.uuid4().hex[:8]}"


def replace_database(workspace: Workspace, source: Path) -> None:
    """Puts another database into a workspace whose hub is stopped."""
    for path in workspace.state.glob("db.sqlite3*"):
        path.unlink()
    shutil.copy(source, workspace.db)


class LossyProxy:
    """A proxy in front of a hub that forwards requests and, when told to, loses answers or keeps them back."""

    def __init__(self, hub_port: int, change: Callable[[bytes], bytes] = bytes) -> None:
        """``change`` is given each answer as it is to be passed on."""
        self._hub_port = hub_port
        self._change = change
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.deaf = False
        self.answers_passed = 0
        self.answers_to_lose = 0
        self.answers_lost = 0
        self.loses_each_write_once = False
        self.keeps_back = False
        self._kept_back = 0
        self._one_more = threading.Condition()
        self._written: set[bytes] = set()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stand_before(self, hub: HubProcess) -> None:
        """Lets whoever looks for the hub find this proxy."""
        server = msgspec.structs.replace(hub.server, port=self.port)
        hub.workspace.server_file.write_bytes(msgspec.json.encode(server))

    def wait_until_kept_back(self, answers: int) -> None:
        """Returns when the hub has answered so often, and nobody has heard it."""
        with self._one_more:
            assert self._one_more.wait_for(lambda: self._kept_back >= answers, DEADLINE_SECONDS), self._kept_back

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            _hang_up(each)
        for thread in self._threads:
            thread.join(DEADLINE_SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self.deaf:
                    raise ConnectionRefusedError
                hub = socket.create_connection(("127.0.0.1", self._hub_port))
            except OSError:
                _hang_up(caller)
                continue
            self._sockets += [caller, hub]
            request = bytearray()
            for target in (self._requests, self._answers):
                thread = threading.Thread(target=target, args=(caller, hub, request))
                self._threads.append(thread)
                thread.start()

    def _requests(self, caller: socket.socket, hub: socket.socket, request: bytearray) -> None:
        ours, theirs = f"127.0.0.1:{self.port}".encode(), f"127.0.0.1:{self._hub_port}".encode()
        with suppress(OSError):
            while data := caller.recv(65_536):
                request += data
                hub.sendall(data.replace(ours, theirs))
        _hang_up(hub)

    def _answers(self, caller: socket.socket, hub: socket.socket, request: bytearray) -> None:
        with suppress(OSError):
            while data := hub.recv(65_536):
                asked = bytes(request)
                request.clear()
                if self._loses(asked):
                    self.answers_lost += 1
                    break
                if self.keeps_back:
                    self._keep_back()
                else:
                    self.answers_passed += 1  # before the caller can have it
                    caller.sendall(self._change(data))
        _hang_up(caller)
        _hang_up(hub)

    def _keep_back(self) -> None:
        with self._one_more:
            self._kept_back += 1
            self._one_more.notify_all()

    def _loses(self, request: bytes) -> bool:
        if self.answers_to_lose > 0:
            self.answers_to_lose -= 1
            return True
        if not self.loses_each_write_once or request.startswith(b"GET ") or request in self._written:
            return False
        self._written.add(request)
        return True


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
