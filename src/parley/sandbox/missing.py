"""What this machine lacks for a jail, in words that a person can act on.

The question is answered by building one: no list of settings says as surely whether it works. Only when it does not,
the known reasons are looked for.
"""

import errno
import os
import sys
from functools import cache
from pathlib import Path
from typing import Final

from parley.sandbox.keeper import NEEDS_LINUX
from parley.sandbox.policy import JailError, Policy
from parley.sandbox.run import run
from parley.sandbox.view import interpreter

_SETTINGS: Final = {
    "kernel/unprivileged_userns_clone": ("0", "1"),
    "user/max_user_namespaces": ("0", "10000"),
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "0"),
}
"""Settings under ``/proc/sys``: the value that forbids user namespaces, and one that does not."""
_PROBE_SECONDS: Final = 30.0
_CAP_SYS_ADMIN: Final = 1 << 21


def missing(*, network: bool = False) -> tuple[str, ...]:
    """What is missing for a jail, without a network or with one; nothing when it can be built."""
    if network:
        return missing() or _missing_for_network()
    if sys.platform != "linux":
        return (f"{NEEDS_LINUX}.",)
    from parley.sandbox import landlock, seccomp  # they cannot be loaded elsewhere

    if not seccomp.known_machine():
        return (f"The sandbox knows x86_64 and aarch64, and this is {os.uname().machine}.",)
    try:
        landlock.version()
    except OSError as error:
        return (explain_landlock(error.errno),)
    try:
        _build_one()
    except JailError as error:
        return (f"{error.message}.", *explain_namespaces(Path("/proc/sys"), _effective_capabilities()))
    return ()


@cache
def _build_one() -> None:
    """Success is remembered; after a failure the next one who asks tries again, when somebody may have put it right."""
    run([str(interpreter()), "-I", "-S", "-c", "pass"], Policy(deadline_seconds=_PROBE_SECONDS))


def _missing_for_network() -> tuple[str, ...]:
    from parley.sandbox import landlock

    if landlock.version() < landlock.NETWORK_VERSION:
        return ("A jail with a network needs Linux 6.7 or newer, which can restrict it (Landlock 4).",)
    return ()


def explain_landlock(code: int | None) -> str:
    """Why the kernel has no Landlock, and what to do."""
    if code == errno.EOPNOTSUPP:
        return "Landlock is switched off: add it to the kernel's lsm= parameter (lsm=landlock,...) and restart."
    return "The kernel has no Landlock: it needs Linux 5.13 or newer, built with CONFIG_SECURITY_LANDLOCK."


def explain_namespaces(settings: Path, capabilities: int) -> tuple[str, ...]:
    """Which known setting forbids namespaces, and what to do."""
    if os.getuid() == 0:
        if capabilities & _CAP_SYS_ADMIN:
            return ()
        return ("Root lacks the capability SYS_ADMIN here, as in most containers: run the hub as an ordinary user.",)
    found: list[str] = []
    for name, (forbids, allows) in _SETTINGS.items():
        path = settings / name
        if path.is_file() and path.read_text().strip() == forbids:
            key = name.replace("/", ".")
            found.append(f"User namespaces are forbidden by {key} = {forbids}: sysctl -w {key}={allows} allows them.")
    return tuple(found)


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0
