"""Who a request says it is for, and which page sent it.

A server on loopback is reachable by every page the user's browser opens. Two headers that a page cannot forge tell
such requests apart. ``Host``: a name that an attacker points at 127.0.0.1 (DNS rebinding) is not a loopback name.
``Origin``: a page of another site, or of another port of this machine, carries its own origin.

The same bytes come with each request of a client, so the verdicts are cached; a header that is too long to be ours is
refused before it can reach the cache, which keeps the cache small.
"""

import re
from functools import lru_cache
from typing import Final

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HEADER_BYTES_MAX: Final = 300
"""A DNS name has at most 253 characters; with scheme and port it fits."""
_VERDICTS_CACHED: Final = 1_024
_HTTP_PORT: Final = 80
_NO_NAMES: Final[frozenset[str]] = frozenset()
_AUTHORITY: Final = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_ORIGIN_SCHEME: Final = b"http://"


def host_allowed(host: bytes | None, *, port: int, extra: frozenset[str] = _NO_NAMES) -> bool:
    """Whether ``Host`` names us: a loopback name or one of ``extra`` (lower case), with our port or with none."""
    return host is not None and len(host) <= _HEADER_BYTES_MAX and _host_allowed(host, port, extra)


def origin_allowed(origin: bytes | None, host: bytes | None, *, port: int, extra: frozenset[str] = _NO_NAMES) -> bool:
    """Whether ``Origin`` is absent, or is the very origin that the request is addressed to.

    The name must be that of ``Host``: another loopback name with our port may be another user's server.
    """
    if origin is None:
        return True
    if host is None or len(origin) > _HEADER_BYTES_MAX or len(host) > _HEADER_BYTES_MAX:
        return False
    return _origin_allowed(origin, host, port, extra)


@lru_cache(_VERDICTS_CACHED)
def _host_allowed(host: bytes, port: int, extra: frozenset[str]) -> bool:
    split = _split(host)
    if split is None:
        return False
    name, asked_port = split
    return (name in LOOPBACK_NAMES or name in extra) and asked_port in (None, port)


@lru_cache(_VERDICTS_CACHED)
def _origin_allowed(origin: bytes, host: bytes, port: int, extra: frozenset[str]) -> bool:
    if not _host_allowed(host, port, extra) or not origin.startswith(_ORIGIN_SCHEME):
        return False
    theirs, ours = _split(origin.removeprefix(_ORIGIN_SCHEME)), _split(host)
    if theirs is None or ours is None:
        return False
    name, origin_port = theirs
    return name == ours[0] and (_HTTP_PORT if origin_port is None else origin_port) == port


def _split(authority: bytes) -> tuple[str, int | None] | None:
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return None
    name, port = match.groups()
    return name.decode("ascii").lower(), None if port is None else int(port)
