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

from parley.sandbox.policy import JailError, Policy

_SETTINGS: Final = {
    "kernel/unprivileged_userns_clone": ("0", "1"),
    "user/max_user_namespaces": ("0", "10000"),
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "0"),
}
"""Settings under ``/proc/sys``: the value that forbids user namespaces, and one that does not."""
_CAP_SYS_ADMIN: Final = 1 << 21


@cache
def missing(*, network: bool = False) -> tuple[str, ...]:
    """What is missing for a jail, with a network or without; nothing when one can be built. It is found out once."""
    if sys.platform != "linux":
        return ("The sandbox needs Linux: this system has no namespaces and no Landlock.",)
    from parley.sandbox import seccomp

    if not seccomp.known_machine():
        return (f"The sandbox knows x86_64 and aarch64, and this is {os.uname().machine}.",)
    return _without_landlock(network=network) or _without_namespaces()


def _without_landlock(*, network: bool) -> tuple[str, ...]:
    from parley.sandbox import landlock

    try:
        version = landlock.version()
    except OSError as error:
        return (explain_landlock(error.errno),)
    if network and version < landlock.NETWORK_VERSION:
        return ("Restricting the network of a plugin needs Linux 6.7 or newer (Landlock 4).",)
    return ()


def _without_namespaces() -> tuple[str, ...]:
    from parley.sandbox.run import run
    from parley.sandbox.view import interpreter

    try:
        run([str(interpreter()), "-I", "-S", "-c", "pass"], Policy(deadline_seconds=30.0))
    except JailError as error:
        return (f"{error.message}.", *explain_namespaces(Path("/proc/sys"), _effective_capabilities()))
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
