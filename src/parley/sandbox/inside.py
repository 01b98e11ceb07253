"""The program that builds a jail: from an ordinary process to one that sees only what its policy names.

Three processes, each the child of the one before:

- the *keeper*, started by the owner, makes the namespaces and waits. It dies with its owner, and ends the jail when it
  is told to; by the time it is gone, everything is.
- the *first*, process 1 in there, moves into a root of its own and waits. It dies with the keeper, and the kernel kills
  all others with it, whatever session or group they hide in. The command cannot touch it: process 1 ignores its
  signals, and Landlock forbids to trace it.
- the *command* gives up every privilege, takes on its limits, Landlock and seccomp, and becomes the program.

An ordinary user gets the right to do this from a user namespace. Root does without one, and the command gets a user id
that nobody else has, since limits of processes are counted by user, and not for root.

``pathlib`` and most of the standard library are not loaded in here: starting has to be quick.
"""

import marshal
import os
import resource
import select
import signal
from typing import Final, NoReturn, cast

from parley.sandbox import landlock, root, seccomp, system
from parley.sandbox.spec import APP, SCRATCH, STARTED, TCP_PORTS, Spec

_STATUS: Final = 3
"""The descriptor that tells the owner how it went. It closes when the command starts."""
EXIT_NO_JAIL: Final = 97
"""The jail could not be built: nothing of the command has run."""
_SIGNALLED: Final = 128
"""A command that a signal ended has this and the signal's number as its exit code, as in a shell."""
_INSIDE_ID: Final = 1_000
"""The ids of an ordinary user in its own namespace."""
_FIRST_SPARE_ID: Final = 0x7000_0000
"""Above all ids that a distribution or a container manager gives out; a keeper's process id is added to it."""
_FIRST_SPARE_ID_IN_CONTAINER: Final = 32_768
_IDS_IN_CONTAINER: Final = 30_000
_NICENESS: Final = 10
_KILL_ME_FIRST: Final = "1000"
_NAMESPACES: Final = system.CLONE_NEWNS | system.CLONE_NEWPID | system.CLONE_NEWIPC | system.CLONE_NEWUTS
_KEEPER_SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGCHLD})
_MORE_OPEN_FILES_THAN_ANYONE_HAS: Final = 1 << 20


def main(spec_descriptor: int, status_descriptor: int) -> NoReturn:
    """The keeper: builds the jail, waits for its end, and ends as the command ended."""
    with open(spec_descriptor, "rb") as file:
        spec = cast(Spec, marshal.load(file))
    if status_descriptor != _STATUS:
        os.dup2(status_descriptor, _STATUS)
    os.set_inheritable(_STATUS, False)
    os.closerange(_STATUS + 1, _MORE_OPEN_FILES_THAN_ANYONE_HAS)
    try:
        system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != spec["owner"]:
            os._exit(EXIT_NO_JAIL)  # it died before we asked to die with it
        _be_modest()
        uid, gid, beside = _leave_the_others(network=spec["network"])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever ignores it never learns of an end
        signal.pthread_sigmask(signal.SIG_BLOCK, _KEEPER_SIGNALS)
        alive, keep = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(keep)
            _be_first(spec, uid, gid, beside, alive)
    except OSError as error:
        _give_up(error)
    for descriptor in (0, 1, alive, _STATUS):
        os.close(descriptor)
    while True:
        if signal.sigwait(_KEEPER_SIGNALS) == signal.SIGTERM:
            os.kill(first, signal.SIGKILL)
        ended, status = os.waitpid(first, os.WNOHANG)
        if ended:
            os._exit(_exit_code(status))


def _be_modest() -> None:
    """The jail gives way to everybody else: in CPU time, and when memory runs out."""
    os.nice(_NICENESS)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(_KILL_ME_FIRST)


def _leave_the_others(*, network: bool) -> tuple[int, int, int]:
    """Makes the namespaces. Returns the user and group of the command, and how many processes are counted beside it."""
    namespaces = _NAMESPACES | (0 if network else system.CLONE_NEWNET)
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        system.unshare(namespaces)
        spare_id = _spare_id()
        return spare_id, spare_id, 0
    system.unshare(namespaces | system.CLONE_NEWUSER)
    for name, content in (
        ("setgroups", "deny"),
        ("uid_map", f"{_INSIDE_ID} {uid} 1"),
        ("gid_map", f"{_INSIDE_ID} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(content)
    return _INSIDE_ID, _INSIDE_ID, 2


def _spare_id() -> int:
    """A user id of this jail alone: our process id makes it so, as long as the jail lives."""
    with open("/proc/self/uid_map") as file:
        ranges = [line.split() for line in file]
    spare_id = _FIRST_SPARE_ID + os.getpid()
    if any(int(start) <= spare_id < int(start) + int(count) for start, _, count in ranges):
        return spare_id
    return _FIRST_SPARE_ID_IN_CONTAINER + os.getpid() % _IDS_IN_CONTAINER


def _be_first(spec: Spec, uid: int, gid: int, beside: int, alive: int) -> NoReturn:
    """Process 1 of the jail: makes its root, starts the command, and ends with it."""
    try:
        system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
        if select.select([alive], [], [], 0)[0]:
            os._exit(EXIT_NO_JAIL)  # the keeper died before we asked to die with it
        os.close(alive)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # also what the owner's thread had blocked
        root.enter(spec, uid, gid)
        system.prctl(system.PR_SET_DUMPABLE, 0)
        command = os.fork()
        if command == 0:
            _become(spec, uid, gid, beside)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.closerange(0, _MORE_OPEN_FILES_THAN_ANYONE_HAS)
        system.drop_capabilities()
    except OSError as error:
        _give_up(error)
    while True:
        ended, status = os.wait()
        if ended == command:
            os._exit(_exit_code(status))


def _become(spec: Spec, uid: int, gid: int, beside: int) -> NoReturn:
    """The command: everything is given up, in the order in which it is needed last."""
    try:
        os.chdir(SCRATCH)
        os.umask(0o077)
        system.drop_capabilities_for_good()
        if os.getuid() == 0:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        system.drop_capabilities()
        system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
        shown = (*spec["shown"], APP)
        ports = TCP_PORTS if spec["network"] else ()
        landlock.restrict(shown=shown, scratch=SCRATCH, devices=root.DEVICES, tcp_ports=ports)
        _set_limits(spec, beside)
        os.closerange(_STATUS + 1, _MORE_OPEN_FILES_THAN_ANYONE_HAS)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        seccomp.restrict(network=spec["network"])
        os.write(_STATUS, STARTED)
        os.execve(spec["command"][0], spec["command"], spec["environment"])
    except OSError as error:
        _give_up(error)


def _set_limits(spec: Spec, beside: int) -> None:
    """The limits of the command; ``beside`` is how many of our own processes are counted with its own."""
    for kind, most in (
        (resource.RLIMIT_AS, spec["memory_bytes"]),
        (resource.RLIMIT_CPU, spec["cpu_seconds"]),
        (resource.RLIMIT_FSIZE, spec["scratch_bytes"]),
        (resource.RLIMIT_NOFILE, spec["open_files"]),
        (resource.RLIMIT_NPROC, spec["processes"] + beside),
        (resource.RLIMIT_CORE, 1),  # 0 would still start a program that the machine hands core dumps to
    ):
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)  # nobody may raise what the owner itself is held to
        resource.setrlimit(kind, (most, most))


def _exit_code(status: int) -> int:
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else _SIGNALLED + os.WTERMSIG(status)


def _give_up(error: OSError) -> NoReturn:
    """Tells the owner why there is no jail."""
    reason = error.strerror or str(error)
    os.write(_STATUS, (reason if error.filename is None else f"{error.filename}: {reason}").encode())
    os._exit(EXIT_NO_JAIL)
