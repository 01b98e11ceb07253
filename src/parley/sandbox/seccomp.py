"""Seccomp: the third wall. System calls that no plugin needs and that other walls do not cover are refused.

A list of what is refused, not of what is allowed: the first stays true when libraries change, and the namespaces and
Landlock do the rest. Each line closes something that is open without it: unix sockets are reachable through a read-only
mount, a kernel's newest calls are where its holes are found, memory that is no part of an address space has no limit,
and Landlock does not see every way to open a TCP connection.
"""

import ctypes
import errno
import os
from typing import Final

from parley.sandbox import system

_AUDIT_ARCH: Final = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_MACHINES: Final = tuple(_AUDIT_ARCH)

_REFUSED: Final = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41), "mount": (165, 40),
    "umount2": (166, 39), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    # keys, which are shared by all processes of a session or a user
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # large and young parts of the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # memory outside of every address space
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180),
    # the machine
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116),
    # connections from outside
    "bind": (49, 200), "listen": (50, 201),
}  # fmt: skip
"""System calls that fail with EPERM, by their numbers on each of ``_MACHINES``."""
_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_SOCKET: Final = (41, 198)
_SOCKETPAIR: Final = (53, 199)
_SEND_AND_POSITION_OF_FLAGS: Final = (((44, 206), 3), ((46, 211), 2), ((307, 269), 3))
"""``sendto``, ``sendmsg`` and ``sendmmsg``."""
_SETSOCKOPT: Final = (54, 208)
_PIVOT_ROOT: Final = _REFUSED["pivot_root"]

_NEW_NAMESPACES: Final = (
    system.CLONE_NEWNS | system.CLONE_NEWCGROUP | system.CLONE_NEWUTS | system.CLONE_NEWIPC
    | system.CLONE_NEWUSER | system.CLONE_NEWPID | system.CLONE_NEWNET
)  # fmt: skip
_MSG_FASTOPEN: Final = 0x2000_0000
_TCP_ULP: Final = 31
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_TYPE_MASK = 1, 0xF
_ANY_PROTOCOL, _TCP = 0, 6
_INT: Final = 0xFFFF_FFFF
_X32: Final = 0x4000_0000
"""Set in the numbers of x86_64's second set of calls, which our table does not name."""

_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGUMENTS = 0, 4, 16
_SECCOMP_MODE_FILTER: Final = 2

Instruction = tuple[int, int, int, int]
"""Code, how many to skip if true, how many if false, operand."""


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))


def known_machine() -> bool:
    """Whether the numbers of this machine's system calls are in the table."""
    return os.uname().machine in _MACHINES


def pivot_root(new_root: str, put_old: str) -> None:
    """Makes another mount the root of this mount namespace."""
    names = (os.fsencode(new_root), os.fsencode(put_old))
    system.syscall("changing the root", _PIVOT_ROOT[_column()], *names)


def restrict(*, network: bool) -> None:
    """Restricts this process and all it starts. It needs ``no_new_privs``. Raises ``OSError``."""
    program = build_filter(os.uname().machine, network=network)
    instructions = (_Instruction * len(program))(*program)
    prog = _Filter(len(program), ctypes.addressof(instructions))
    system.prctl(system.PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(prog))


def build_filter(machine: str, *, network: bool) -> list[Instruction]:
    """The program that the kernel runs on each system call."""
    column = _MACHINES.index(machine)
    program: list[Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARCH),
        (_IF_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        (_IF_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL_PROCESS),
    ]
    for numbers in _REFUSED.values():
        program += _refuse(numbers[column], errno.EPERM)
    program += _refuse(_CLONE3[column], errno.ENOSYS)  # its flags are out of reach; libc falls back to clone
    program += _refuse_flags(_CLONE[column], 0, _NEW_NAMESPACES)
    for numbers, position in _SEND_AND_POSITION_OF_FLAGS:
        program += _refuse_flags(numbers[column], position, _MSG_FASTOPEN)  # connects, and Landlock does not see it
    program += _refuse_option(_SETSOCKOPT[column], _TCP, _TCP_ULP)  # turns TCP into what Landlock does not know
    # A datagram socket of a pair could still send to any other; a stream stays connected to its twin.
    program += _allow_only(_SOCKETPAIR[column], (0, _INT, (_AF_UNIX,)), (1, _SOCK_TYPE_MASK, (_SOCK_STREAM,)))
    program += _sockets(_SOCKET[column], network=network)
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _sockets(number: int, *, network: bool) -> list[Instruction]:
    if not network:
        return _refuse(number, errno.EPERM)
    # Landlock restricts plain TCP alone: no UDP, and no MPTCP, which falls back to TCP with a server that lacks it.
    return _allow_only(
        number,
        (0, _INT, (_AF_INET, _AF_INET6)),
        (1, _SOCK_TYPE_MASK, (_SOCK_STREAM,)),
        (2, _INT, (_ANY_PROTOCOL, _TCP)),
    )


def _refuse(number: int, error: int) -> list[Instruction]:
    return [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]


def _refuse_flags(number: int, position: int, flags: int) -> list[Instruction]:
    """Refuses a call when one of ``flags`` is set in its argument at ``position``."""
    body: list[Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARGUMENTS + 8 * position),
        (_IF_ANY_BIT, 0, 1, flags),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [(_IF_EQUAL, 0, len(body), number), *body]


def _refuse_option(number: int, level: int, option: int) -> list[Instruction]:
    """Refuses to set one option of a socket."""
    body: list[Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARGUMENTS + 8),
        (_IF_EQUAL, 0, 3, level),
        (_LOAD, 0, 0, _OFFSET_ARGUMENTS + 16),
        (_IF_EQUAL, 0, 1, option),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [(_IF_EQUAL, 0, len(body), number), *body]


def _allow_only(number: int, *conditions: tuple[int, int, tuple[int, ...]]) -> list[Instruction]:
    """Refuses a call unless each argument (position, mask, values) is one of its values."""
    body: list[Instruction] = []
    for position, mask, values in conditions:
        body += [(_LOAD, 0, 0, _OFFSET_ARGUMENTS + 8 * position), (_AND, 0, 0, mask)]
        body += [(_IF_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
        body += [(_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    body += [(_RETURN, 0, 0, _ALLOW)]
    return [(_IF_EQUAL, 0, len(body), number), *body]


def _column() -> int:
    return _MACHINES.index(os.uname().machine)
