"""The system calls that Python does not have, each raising ``OSError`` that says what was attempted.

The numbers of calls that were added to Linux since 2019 are the same on every machine; for older ones there is one
table a machine type, in ``seccomp``. Importing this module works everywhere; calling it works on Linux.
"""

import ctypes
import os
from typing import Final

CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWCGROUP: Final = 0x0200_0000
CLONE_NEWUTS: Final = 0x0400_0000
CLONE_NEWIPC: Final = 0x0800_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWPID: Final = 0x2000_0000
CLONE_NEWNET: Final = 0x4000_0000

MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x4_0000
_MNT_DETACH: Final = 0x2

MOUNT_ATTR_RDONLY: Final = 0x1
MOUNT_ATTR_NOSUID: Final = 0x2
MOUNT_ATTR_NODEV: Final = 0x4
MOUNT_ATTR_NOEXEC: Final = 0x8

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_SECCOMP: Final = 22
_PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4

_SYS_OPEN_TREE: Final = 428
_SYS_MOVE_MOUNT: Final = 429
_SYS_MOUNT_SETATTR: Final = 442

_OPEN_TREE_CLONE: Final = 1
_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_CAPABILITY_VERSION_3: Final = 0x2008_0522
_LAST_CAPABILITY: Final = 63

_libc: Final = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def unshare(flags: int) -> None:
    """Gives this process namespaces of its own."""
    _check(_libc.unshare(flags), "making namespaces")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mounts a new file system, or changes how a mount spreads."""
    names = (os.fsencode(source), os.fsencode(target), os.fsencode(kind))
    _check(_libc.mount(*names, ctypes.c_ulong(flags), os.fsencode(options)), f"mounting {kind or 'again'} at {target}")


def clone_mount(path: str) -> int:
    """A descriptor of a detached copy of the tree at ``path``, with what is mounted below: a part that a user namespace
    holds together cannot be copied without the rest."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE
    return syscall(f"copying the mount of {path}", _SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)


def restrict_mount(descriptor: int, attributes: int, *, below: bool = True) -> None:
    """Adds attributes to a mount, and to all ``below``; those that it has stay: a user namespace may not take them."""
    wanted = _MountAttributes(attr_set=attributes)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if below else 0)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    syscall("restricting a mount", _SYS_MOUNT_SETATTR, descriptor, b"", flags, ctypes.byref(wanted), size)


def place_mount(descriptor: int, target: str) -> None:
    """Attaches a detached copy at ``target``."""
    arguments = (descriptor, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    syscall(f"placing a mount at {target}", _SYS_MOVE_MOUNT, *arguments)


def unmount(target: str) -> None:
    """Detaches a mount."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"unmounting {target}")


def prctl(option: int, value: int = 0, pointer: object = 0) -> None:
    """Changes a property of this process."""
    _check(_libc.prctl(option, ctypes.c_ulong(value), pointer, 0, 0), f"prctl {option}")


def drop_capabilities_for_good() -> None:
    """Empties the capability bounds, so that no program started later can gain one, and the ambient set."""
    for capability in range(_LAST_CAPABILITY + 1):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break  # the kernel knows no more of them
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)


def drop_capabilities() -> None:
    """Gives up every capability that this process holds."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, none), "dropping capabilities")


def syscall(attempt: str, number: int, *arguments: object) -> int:
    """A raw system call: its result, or ``OSError``."""
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    _check(result, attempt)
    return result


def _check(result: int, attempt: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{attempt}: {os.strerror(number)}")
