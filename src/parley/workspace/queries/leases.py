"""Reading leases, as of a time: one that has ended by then is over, whether or not the hub has written that down."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from parley.core.holds import Hold, is_live
from parley.core.patterns import covers, fixed_part, overlap
from parley.wire.entities import Lease, LeaseHit, LeaseMode, LeaseStatus

LEASE_COLUMNS: Final = "id, holder, patterns, mode, reason, generation, acquired_at, expires_at, released_at, status"
_LEASE: Final = f"SELECT {LEASE_COLUMNS} FROM leases WHERE id = ?"
_OF_OTHERS: Final = (
    f"SELECT {LEASE_COLUMNS} FROM leases WHERE status = 'active' AND expires_at > :now"
    " AND (:holder IS NULL OR holder <> :holder) AND (:mode = 'exclusive' OR mode = 'exclusive') ORDER BY generation"
)
_ENDED: Final = (
    f"SELECT {LEASE_COLUMNS} FROM leases WHERE status = 'active' AND expires_at <= ? ORDER BY expires_at, id LIMIT ?"
)
_ACTIVE: Final = f"SELECT {LEASE_COLUMNS} FROM leases WHERE status = 'active' ORDER BY generation"
_HELD_BY: Final = f"SELECT {LEASE_COLUMNS} FROM leases WHERE status = 'active' AND holder = ? ORDER BY generation"
_STATUS_NOW: Final = "CASE WHEN status = 'active' AND expires_at <= :now THEN 'expired' ELSE status END"
_LIST: Final = (
    f"SELECT {LEASE_COLUMNS} FROM leases WHERE (:status IS NULL OR {_STATUS_NOW} = :status)"
    " AND (:holder IS NULL OR holder = :holder) ORDER BY generation DESC LIMIT :limit OFFSET :offset"
)
# The condition lets the index of active leases serve the question that is asked all the time.
_LIST_ACTIVE: Final = (
    f"SELECT {LEASE_COLUMNS} FROM leases WHERE status = 'active' AND expires_at > :now"
    " AND (:holder IS NULL OR holder = :holder) ORDER BY generation DESC LIMIT :limit OFFSET :offset"
)
_GENERATION: Final = "SELECT coalesce(max(generation), 0) FROM leases"

_decode_patterns = msgspec.json.Decoder(list[str]).decode


def hold_of(lease: Lease) -> Hold:
    """Who holds the lease, by what is written down."""
    return Hold(lease.holder if lease.status == "active" else None, lease.generation, lease.expires_at)


def lease_at(lease: Lease, now: str) -> Lease:
    """The lease as it is at this time: expired once its end has come."""
    return lease if lease.status != "active" or is_live(hold_of(lease), now) else replace(lease, status="expired")


def get_lease(connection: apsw.Connection, lease_id: str) -> Lease | None:
    """One lease as it is written down."""
    return next(map(_lease, connection.execute(_LEASE, (lease_id,))), None)


def list_leases(
    connection: apsw.Connection,
    *,
    now: str,
    status: LeaseStatus | None = None,
    holder: str | None = None,
    limit: int,
    offset: int = 0,
) -> tuple[list[Lease], bool]:
    """Leases as they are at this time, newest first, and whether there are more."""
    parameters = {"now": now, "holder": holder, "limit": limit + 1, "offset": offset}
    if status == "active":
        rows = connection.execute(_LIST_ACTIVE, parameters)
    else:
        rows = connection.execute(_LIST, {**parameters, "status": status})
    found = [lease_at(lease, now) for lease in map(_lease, rows)]
    return found[:limit], len(found) > limit


def conflicts(
    connection: apsw.Connection, *, now: str, holder: str, patterns: Sequence[str], mode: LeaseMode
) -> list[LeaseHit]:
    """The leases of others that keep the holder from reserving these patterns, one for each pattern in the way."""
    return [
        _hit(lease, theirs, wanted)
        for lease in leases_of_others(connection, now=now, holder=holder, mode=mode)
        for theirs in lease.patterns
        for wanted in patterns
        if overlap(theirs, wanted)
    ]


def leases_in_the_way(
    connection: apsw.Connection, *, now: str, holder: str | None, paths: Iterable[str], mode: LeaseMode
) -> list[LeaseHit]:
    """For each path, in order, the leases of others that cover it; a lease is named once for a path."""
    by_start: dict[tuple[str, ...], list[tuple[Lease, str]]] = {}
    for lease in leases_of_others(connection, now=now, holder=holder, mode=mode):
        for pattern in lease.patterns:
            by_start.setdefault(fixed_part(pattern), []).append((lease, pattern))
    return [hit for path in paths for hit in _hits(by_start, path)]


def leases_of_others(connection: apsw.Connection, *, now: str, holder: str | None, mode: LeaseMode) -> list[Lease]:
    """Leases that are active at this time, not the holder's, and not compatible with the mode."""
    return list(map(_lease, connection.execute(_OF_OTHERS, {"now": now, "holder": holder, "mode": mode})))


def ended_leases(connection: apsw.Connection, now: str, limit: int) -> list[Lease]:
    """Leases that are written down as active though they have ended."""
    return list(map(_lease, connection.execute(_ENDED, (now, limit))))


def active_leases(connection: apsw.Connection) -> list[Lease]:
    """All leases that are written down as active."""
    return list(map(_lease, connection.execute(_ACTIVE)))


def leases_held_by(connection: apsw.Connection, holder: str) -> list[Lease]:
    """Leases that somebody has, by what is written down."""
    return list(map(_lease, connection.execute(_HELD_BY, (holder,))))


def lease_generation(connection: apsw.Connection) -> int:
    """The generation of the newest lease; 0 if there was none."""
    row: Any = connection.execute(_GENERATION).fetchone()
    return row[0]


def _hits(by_start: dict[tuple[str, ...], list[tuple[Lease, str]]], path: str) -> list[LeaseHit]:
    """The leases that cover a path, looked up by how their patterns begin; of each the first pattern that does."""
    parts = tuple(path.split("/"))
    found: dict[int, LeaseHit] = {}
    for length in range(len(parts) + 1):
        for lease, pattern in by_start.get(parts[:length], ()):
            if lease.generation not in found and covers(pattern, path):
                found[lease.generation] = _hit(lease, pattern, path)
    return [found[generation] for generation in sorted(found)]


def _hit(lease: Lease, pattern: str, wanted: str) -> LeaseHit:
    return LeaseHit(lease.id, lease.holder, lease.mode, pattern, lease.reason, lease.expires_at, wanted)


def _lease(row: Any) -> Lease:
    lease_id, holder, patterns, *rest = row
    return Lease(lease_id, holder, _decode_patterns(patterns), *rest)
