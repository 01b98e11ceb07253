"""The process that keeps a jail: starting it, and ending it with everything in it."""

import contextlib
import marshal
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final, cast

from parley.sandbox.policy import JailError, Policy
from parley.sandbox.spec import SCRATCH, STARTED, Spec
from parley.sandbox.view import View, interpreter, make_view, package_folder

NEEDS_LINUX: Final = "The sandbox needs Linux: this system has no namespaces and no Landlock"
_START_SECONDS: Final = 30.0
"""A machine that takes longer than this to build a jail has other troubles."""
_END_SECONDS: Final = 10.0
_STATUS_BYTES: Final = 4_096
_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": SCRATCH, "TMPDIR": SCRATCH}
_ENVIRONMENT_FOR_NETWORK: Final = {"RES_OPTIONS": "use-vc"}
"""Names are looked up over TCP, since there is no UDP."""
_START_CODE: Final = """
import sys
from types import ModuleType
for name, folder in (("parley", {package!r}), ("parley.sandbox", {sandbox!r})):
    sys.modules[name] = package = ModuleType(name)
    package.__path__ = [folder]
from parley.sandbox.inside import main
main({spec}, {status})
"""
"""The packages are entered past their front doors, which load what only the outside needs."""


class Keeper:
    """A jail whose command has started. The kernel kills it with the thread that made it."""

    def __init__(self, command: Sequence[str], policy: Policy, environment: Mapping[str, str] | None = None) -> None:
        """Starts the command. ``JailError`` says why it did not."""
        if sys.platform != "linux":
            raise JailError("unavailable", NEEDS_LINUX)
        spec = _make_spec(command, policy, make_view(policy), environment or {})
        spec_file = os.memfd_create("parley-jail")
        status, status_of_child = os.pipe()
        try:
            with open(spec_file, "wb", closefd=False) as file:
                marshal.dump(cast(dict[str, Any], spec), file)
            os.lseek(spec_file, 0, os.SEEK_SET)
            self._process = _spawn(spec_file, status_of_child)
        except BaseException:
            os.close(status)
            raise
        finally:
            os.close(spec_file)
            os.close(status_of_child)
        self.stdin = cast(IO[bytes], self._process.stdin)
        self.stdout = cast(IO[bytes], self._process.stdout)
        self.stderr = cast(IO[bytes], self._process.stderr)
        try:
            self._await_start(status)
        except BaseException:
            self.end()
            raise
        finally:
            os.close(status)

    def wait(self, timeout_seconds: float) -> int | None:
        """The command's exit code, 128 and more for a signal; ``None`` when it still runs after that time."""
        try:
            return self._process.wait(max(timeout_seconds, 0.0))
        except subprocess.TimeoutExpired:
            return None

    def has_company(self) -> bool:
        """Whether anything but the command lives in the jail: what it has started, also what hides in a session."""
        first = living_children(self._process.pid)
        inside = [process for each in first for process in living_children(each)]
        return len(inside) > 1 or any(living_children(process) for process in inside)

    def interrupt(self) -> None:
        """Asks for the end without waiting for it. The one thing here that any thread may do."""
        self._process.terminate()

    def end(self) -> int:
        """Kills everything in the jail that still lives, and returns when nothing does; the command's exit code."""
        if self._process.poll() is None:
            self._process.terminate()
            if self.wait(_END_SECONDS) is None:
                self._process.kill()  # something has stopped the keeper: the kernel takes the jail with it
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()
        return self._process.wait()

    def _await_start(self, status: int) -> None:
        said = _read_to_end(status, _START_SECONDS)
        if said == STARTED:
            return
        self._process.kill()
        why = said.removeprefix(STARTED) or _read_to_end(self.stderr.fileno(), _END_SECONDS).strip()
        words = why.decode(errors="replace") or "it did not start in time"
        raise JailError("unavailable", f"The sandbox could not be built: {words}")


def _read_to_end(descriptor: int, timeout_seconds: float) -> bytes:
    """What comes until the other side closes, or falls silent for that time."""
    said = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while poll.poll(timeout_seconds * 1000) and (chunk := os.read(descriptor, _STATUS_BYTES)):
        said += chunk
    return said


def living_children(process: int) -> list[int]:
    """The children of a process that have not ended, as the kernel lists them; none of a process that is gone."""
    found: list[int] = []
    threads: list[str] = []
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{process}/task")
    for thread in threads:
        # One that ends meanwhile must not hide the children of the others; its own go to one of those.
        with contextlib.suppress(OSError), open(f"/proc/{process}/task/{thread}/children") as file:
            found += [int(child) for child in file.read().split()]
    return [child for child in found if _lives(child)]


def _lives(process: int) -> bool:
    """Whether it runs or could: a zombie only waits for somebody to hear of its end."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def _spawn(spec_file: int, status: int) -> "subprocess.Popen[bytes]":
    package = package_folder()
    code = _START_CODE.format(package=str(package), sandbox=str(package / "sandbox"), spec=spec_file, status=status)
    try:
        return subprocess.Popen(
            [str(interpreter()), "-I", "-S", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pass_fds=(spec_file, status),
            env={},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise JailError("unavailable", f"The sandbox could not be started: {error}") from error


def _make_spec(command: Sequence[str], policy: Policy, view: View, environment: Mapping[str, str]) -> Spec:
    network = _ENVIRONMENT_FOR_NETWORK if policy.network else {}
    return Spec(
        owner=os.getpid(),
        command=list(command),
        environment={**_ENVIRONMENT, **network, **environment},
        shown=[str(path) for path in view.shown],
        links=[(str(link), str(target)) for link, target in view.links],
        files=dict(policy.files),
        network=policy.network,
        memory_bytes=policy.memory_bytes,
        cpu_seconds=policy.cpu_seconds,
        scratch_bytes=policy.scratch_bytes,
        processes=policy.processes,
        open_files=policy.open_files,
    )
