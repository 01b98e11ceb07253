"""Who a request says it is for, and which page sent it.

A server on loopback is reachable by every page the user's browser opens. Two headers that a page cannot forge tell
such requests apart. ``Host``: a name that an attacker points at 127.0.0.1 (DNS rebinding) is not a loopback name.
``Origin``: a page of another site, or of another port of this machine, carries its own origin.

A person may show the page through a tunnel or a proxy of their own, and trust the names that it has there. Those are
taken as they are written, port included, and their pages come over HTTPS; a tunnel to a loopback name needs none.

The same bytes come with each request of a client, so the verdicts are cached; a header that is too long to be ours is
refused before it can reach the cache, which keeps the cache small.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HEADER_BYTES_MAX: Final = 300
"""A DNS name has at most 253 characters; with scheme and port it fits."""
_VERDICTS_CACHED: Final = 1_024
_HTTP_PORT: Final = 80
_AUTHORITY: Final = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")


class Names(NamedTuple):
    """How a server may be called, in lower case, beside the loopback names."""

    own: frozenset[str] = frozenset()
    """With our port or with none."""
    trusted: frozenset[str] = frozenset()
    """As they stand in ``Host``, with whatever port is written there."""


NO_NAMES: Final = Names()


def host_allowed(host: bytes | None, *, port: int, names: Names = NO_NAMES) -> bool:
    """Whether ``Host`` names us: a loopback name or one of ours with our port or with none, or a trusted name."""
    return host is not None and len(host) <= _HEADER_BYTES_MAX and _host_allowed(host, port, names)


def origin_allowed(origin: bytes | None, host: bytes | None, *, port: int, names: Names = NO_NAMES) -> bool:
    """Whether ``Origin`` is absent, or is the very origin that the request is addressed to.

    The name must be that of ``Host``: another loopback name with our port may be another user's server.
    """
    if origin is None:
        return True
    if host is None or len(origin) > _HEADER_BYTES_MAX or len(host) > _HEADER_BYTES_MAX:
        return False
    return _origin_allowed(origin, host, port, names)


def page_origin(host: bytes, *, port: int, names: Names = NO_NAMES) -> str:
    """Where a browser finds our page by the name in ``Host``, which was allowed.

    A trusted name stands for another address than ours, so nothing is added to it.
    """
    written = host.decode("ascii")
    if not _is_trusted(host, names):
        return f"http://{written.removesuffix(f':{port}')}:{port}"
    split = _split(host)
    scheme = "http" if split is not None and split[0] in LOOPBACK_NAMES else "https"
    return f"{scheme}://{written}"


@lru_cache(_VERDICTS_CACHED)
def _host_allowed(host: bytes, port: int, names: Names) -> bool:
    split = _split(host)
    if split is None:
        return False
    name, asked_port = split
    own = (name in LOOPBACK_NAMES or name in names.own) and asked_port in (None, port)
    return own or _is_trusted(host, names)


@lru_cache(_VERDICTS_CACHED)
def _origin_allowed(origin: bytes, host: bytes, port: int, names: Names) -> bool:
    if not _host_allowed(host, port, names):
        return False
    scheme, _, authority = origin.partition(b"://")
    if _is_trusted(host, names):
        split = _split(host)
        plain = split is not None and split[0] in LOOPBACK_NAMES and scheme == b"http"
        return (scheme == b"https" or plain) and authority.lower() == host.lower()
    theirs, ours = _split(authority), _split(host)
    if theirs is None or ours is None or scheme != b"http":
        return False
    name, origin_port = theirs
    return name == ours[0] and (_HTTP_PORT if origin_port is None else origin_port) == port


def _is_trusted(host: bytes, names: Names) -> bool:
    return bool(names.trusted) and host.decode("latin-1").lower() in names.trusted


def _split(authority: bytes) -> tuple[str, int | None] | None:
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return None
    name, port = match.groups()
    return name.decode("ascii").lower(), None if port is None else int(port)
