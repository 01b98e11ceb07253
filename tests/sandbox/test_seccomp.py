"""The filter of system calls, run by a small machine of our own: also for machines that this is not."""

import errno
import os
import socket
from collections.abc import Sequence

import pytest

from parley.sandbox import seccomp

ALLOW, KILL, EPERM, ENOSYS = 0x7FFF_0000, 0x8000_0000, 0x5_0000 | errno.EPERM, 0x5_0000 | errno.ENOSYS
ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
MACHINES = tuple(ARCH)
NUMBERS = {
    "read": (0, 63), "write": (1, 64), "openat": (257, 56), "execve": (59, 221), "mmap": (9, 222),
    "clone": (56, 220), "clone3": (435, 435), "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203),
    "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269), "setsockopt": (54, 208),
    "ptrace": (101, 117), "unshare": (272, 97), "mount": (165, 40), "keyctl": (250, 219), "bpf": (321, 280),
    "io_uring_setup": (425, 425), "bind": (49, 200), "listen": (50, 201), "memfd_create": (319, 279),
}  # fmt: skip
UNIX, INET, INET6, NETLINK, VSOCK = 1, 2, 10, 16, 40
STREAM, DGRAM, RAW = 1, 2, 3
CLOEXEC_NONBLOCK = 0o2004000
FASTOPEN, NEWUSER, THREAD = 0x2000_0000, 0x1000_0000, 0x3D_0F00


def verdict(machine: str, number: int, arguments: Sequence[int] = (), *, network: bool, arch: int | None = None) -> int:
    """What the kernel would do with a call: the filter's program, step by step."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = {0: number, 4: ARCH[machine] if arch is None else arch}
    data |= {16 + 8 * index: value & 0xFFFF_FFFF for index, value in enumerate(padded)}
    program = seccomp.build_filter(machine, network=network)
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        match code:
            case 0x20:
                accumulator = data[operand]
            case 0x54:
                accumulator &= operand
            case 0x06:
                return operand
            case _:
                test = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}
                at += if_true if test[code] else if_false


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("call", "arguments", "without", "with_network"),
    [
        ("read", (), ALLOW, ALLOW),
        ("write", (), ALLOW, ALLOW),
        ("openat", (), ALLOW, ALLOW),
        ("execve", (), ALLOW, ALLOW),
        ("mmap", (), ALLOW, ALLOW),
        ("connect", (), ALLOW, ALLOW),
        ("ptrace", (), EPERM, EPERM),
        ("unshare", (), EPERM, EPERM),
        ("mount", (), EPERM, EPERM),
        ("keyctl", (), EPERM, EPERM),
        ("bpf", (), EPERM, EPERM),
        ("io_uring_setup", (), EPERM, EPERM),
        ("memfd_create", (), EPERM, EPERM),
        ("bind", (), EPERM, EPERM),
        ("listen", (), EPERM, EPERM),
        ("clone3", (), ENOSYS, ENOSYS),
        ("clone", (THREAD,), ALLOW, ALLOW),
        ("clone", (17,), ALLOW, ALLOW),
        ("clone", (NEWUSER | 17,), EPERM, EPERM),
        ("socketpair", (UNIX, STREAM | CLOEXEC_NONBLOCK), ALLOW, ALLOW),
        ("socketpair", (UNIX, DGRAM), EPERM, EPERM),
        ("socketpair", (INET, STREAM), EPERM, EPERM),
        ("socket", (INET, STREAM | CLOEXEC_NONBLOCK, 0), EPERM, ALLOW),
        ("socket", (INET6, STREAM, 6), EPERM, ALLOW),
        ("socket", (INET, STREAM, 262), EPERM, EPERM),
        ("socket", (INET, STREAM, 132), EPERM, EPERM),
        ("socket", (INET, DGRAM, 0), EPERM, EPERM),
        ("socket", (INET, RAW, 1), EPERM, EPERM),
        ("socket", (UNIX, STREAM, 0), EPERM, EPERM),
        ("socket", (NETLINK, RAW, 0), EPERM, EPERM),
        ("socket", (VSOCK, STREAM, 0), EPERM, EPERM),
        ("sendto", (3, 0, 0, 0), ALLOW, ALLOW),
        ("sendto", (3, 0, 0, FASTOPEN), EPERM, EPERM),
        ("sendmsg", (3, 0, FASTOPEN), EPERM, EPERM),
        ("sendmmsg", (3, 0, 0, FASTOPEN), EPERM, EPERM),
        ("setsockopt", (3, 6, 1), ALLOW, ALLOW),
        ("setsockopt", (3, 1, 31), ALLOW, ALLOW),
        ("setsockopt", (3, 6, 31), EPERM, EPERM),
    ],
)
def test_a_call_is_judged(
    call: str, arguments: tuple[int, ...], without: int, with_network: int, machine: str, network: bool
) -> None:
    number = NUMBERS[call][MACHINES.index(machine)]
    assert verdict(machine, number, arguments, network=network) == (with_network if network else without)


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_machine_are_the_end(machine: str) -> None:
    i386 = 0x4000_0003
    assert verdict(machine, 0, network=True, arch=i386) == KILL
    assert verdict(machine, 0x4000_0000 | 41, (INET, STREAM, 262), network=True) == KILL


def test_the_names_of_this_test_are_those_of_the_standard_library() -> None:
    assert (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_VSOCK) == (UNIX, INET, INET6, VSOCK)
    assert socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK == CLOEXEC_NONBLOCK
    assert os.uname().machine not in MACHINES or seccomp.known_machine()
