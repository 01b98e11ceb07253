"""What a client can ask about leases of paths."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from parley.client.call import Call, Caller, Read, check_limit, encoded, mutation, own_name, query_text, segment
from parley.core import limits
from parley.core.clock import SystemClock, iso
from parley.core.errors import InvalidInput, NotFound
from parley.core.patterns import normal_path
from parley.wire import requests
from parley.wire.answers import LeaseResult, Leases, OneLease, PathsChecked
from parley.wire.entities import LeaseMode, LeaseStatus
from parley.wire.paging import offset_cursor, parse_cursor
from parley.workspace import queries
from parley.workspace.queries.leases import lease_at, leases_in_the_way

if TYPE_CHECKING:
    import apsw


def acquire_lease(
    caller: Caller,
    patterns: Sequence[str],
    holder: str | None = None,
    *,
    mode: LeaseMode = "exclusive",
    reason: str | None = None,
    ttl_seconds: int | None = None,
    idempotency_key: str | None = None,
) -> Call[LeaseResult]:
    """Reserves paths, all of the patterns or none. Raises ``LeaseConflict``, whose details name who is in the way.

    Asking again for exactly what one has renews it, and answers with ``event_id`` None.
    """
    name = own_name(caller, holder, "holder")
    body = requests.AcquireLease(name, list(patterns), mode, reason, ttl_seconds)
    return mutation(caller, "POST", "/api/v1/leases", LeaseResult, body, idempotency_key)


def renew_lease(
    caller: Caller, lease_id: str, generation: int, holder: str | None = None, *, ttl_seconds: int | None = None
) -> Call[LeaseResult]:
    """Pushes the end of a lease on. Raises ``LeaseLost`` if it has ended. Doing it twice needs no key."""
    body = requests.RenewLease(own_name(caller, holder, "holder"), generation, ttl_seconds)
    return Call("PATCH", _lease(lease_id), LeaseResult, encoded(body))


def release_lease(
    caller: Caller,
    lease_id: str,
    generation: int,
    holder: str | None = None,
    *,
    reason: str | None = None,
    idempotency_key: str | None = None,
) -> Call[LeaseResult]:
    """Gives paths back."""
    body = requests.ReleaseLease(own_name(caller, holder, "holder"), generation, reason)
    return mutation(caller, "PATCH", _lease(lease_id), LeaseResult, body, idempotency_key)


def list_leases(
    _caller: Caller,
    *,
    status: LeaseStatus | None = "active",
    holder: str | None = None,
    limit: int = limits.PAGE_LIMIT_DEFAULT,
    cursor: str | None = None,
) -> Read[Leases]:
    """Leases as they are now, newest first; with ``status`` None also those that have ended."""
    check_limit(limit)
    offset = parse_cursor(cursor, "rows").offset or 0

    def from_file(connection: "apsw.Connection") -> Leases:
        found, more = queries.list_leases(
            connection, now=_now(), status=status, holder=holder, limit=limit, offset=offset
        )
        return Leases(found, more, offset_cursor(offset, limit, more))

    path = "/api/v1/leases" + query_text(status=status or "all", holder=holder, limit=limit, cursor=cursor)
    return Read("GET", path, Leases, from_file=from_file)


def get_lease(_caller: Caller, lease_id: str) -> Read[OneLease]:
    """One lease as it is now."""

    def from_file(connection: "apsw.Connection") -> OneLease:
        found = queries.get_lease(connection, lease_id)
        if found is None:
            raise NotFound(f"Lease not found: {lease_id}", lease_id=lease_id)
        return OneLease(lease_at(found, _now()))

    return Read("GET", _lease(lease_id), OneLease, from_file=from_file)


def check_paths(
    caller: Caller, paths: Sequence[str], holder: str | None = None, *, mode: LeaseMode = "shared"
) -> Read[PathsChecked]:
    """Whose leases are in the way of these paths; one's own are not, by default those of the client's own name.

    ``shared`` asks for exclusive leases of others, as somebody who writes without a lease should; ``exclusive`` asks
    for any, as somebody who wants the paths alone.
    """
    if len(paths) > limits.CHECKED_PATHS_MAX:
        raise InvalidInput(f"At most {limits.CHECKED_PATHS_MAX} paths at once", field="paths")
    own = holder if holder is not None else caller.sender

    def from_file(connection: "apsw.Connection") -> PathsChecked:
        normal = list(map(normal_path, paths))
        return PathsChecked(len(normal), leases_in_the_way(connection, now=_now(), holder=own, paths=normal, mode=mode))

    body = encoded(requests.CheckPaths(list(paths), own, mode))
    return Read("POST", "/api/v1/leases/check", PathsChecked, body, from_file=from_file)


def _lease(lease_id: str) -> str:
    return f"/api/v1/leases/{segment(lease_id)}"


def _now() -> str:
    return iso(SystemClock().now_ms())
