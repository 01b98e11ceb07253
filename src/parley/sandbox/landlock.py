"""Landlock: the second wall, for the case that the namespace has a hole.

The namespace shows only what the policy names. Landlock forbids, inside it, everything but reading that and writing the
scratch folder; it forbids TCP connections but to the ports that are named, and, where the kernel knows how, abstract
unix sockets and signals to processes outside. A process in it cannot trace one that is not.
"""

import ctypes
import errno
import os
from collections.abc import Iterable
from typing import Final

from parley.sandbox.system import syscall

NETWORK_VERSION: Final = 4
"""The first version that can restrict TCP (Linux 6.7)."""
_SCOPE_VERSION: Final = 6

_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_CREATE_VERSION: Final = 1
_RULE_PATH, _RULE_PORT = 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_ALL_SINCE: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""All the rights to files that a version knows: what is handled and not allowed is forbidden."""
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_FOR_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_SCRATCH: Final = (
    _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _REFER
    | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM
)  # fmt: skip
_DEVICE: Final = _READ_FILE | _WRITE_FILE
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS: Final = 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _PortRule(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


def version() -> int:
    """The version of Landlock that the kernel has. ``OSError``: not built in (ENOSYS) or not enabled (EOPNOTSUPP)."""
    return syscall("asking for Landlock", _SYS_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_VERSION)


def restrict(*, shown: Iterable[str], scratch: str, devices: Iterable[str], tcp_ports: Iterable[int]) -> None:
    """Restricts this process and all it starts. It needs ``no_new_privs``. Raises ``OSError``."""
    known = version()
    ports = tuple(tcp_ports)
    if ports and known < NETWORK_VERSION:
        raise OSError(errno.EOPNOTSUPP, "restricting the network needs Linux 6.7 or newer (Landlock 4)")
    rights = _ALL_SINCE[max(since for since in _ALL_SINCE if since <= known)]
    ruleset = _Ruleset(fs=rights)
    size = 8
    if known >= NETWORK_VERSION:
        ruleset.net, size = _BIND_TCP | _CONNECT_TCP, 16
    if known >= _SCOPE_VERSION:
        ruleset.scoped, size = _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS, 24
    descriptor = syscall("making Landlock rules", _SYS_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), 0)
    try:
        _allow_path(descriptor, "/", _READ_DIR)  # names only: Python looks for packages by listing folders
        for path in shown:
            _allow_path(descriptor, path, _READ)
        for path in devices:
            _allow_path(descriptor, path, _DEVICE)
        _allow_path(descriptor, scratch, _SCRATCH & rights)
        for port in ports:
            rule = _PortRule(_CONNECT_TCP, port)
            syscall("allowing a port", _SYS_ADD_RULE, descriptor, _RULE_PORT, ctypes.byref(rule), 0)
        syscall("entering Landlock", _SYS_RESTRICT_SELF, descriptor, 0)
    finally:
        os.close(descriptor)


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib is not loaded in here
            rights &= _FOR_FILES
        rule = _PathRule(rights, descriptor)
        syscall(f"allowing {path}", _SYS_ADD_RULE, ruleset, _RULE_PATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)
