"""Leases: reserve paths for a while, all of them or none.

Two leases of different holders are in each other's way if any path is covered by both and one of them is exclusive. A
lease warns; it keeps nobody from writing to a disk. Its generation is larger than that of every earlier lease, so
whoever keeps the largest one it has seen can tell a holder from somebody who has lost the paths since.
"""

from typing import Final

from msgspec.structs import replace

from parley.core import ids
from parley.core.canonical import canonical_json
from parley.core.clock import iso
from parley.core.errors import InvalidInput, LeaseConflict, LeaseLost, NotFound
from parley.core.holds import Loss, loss_of
from parley.core.patterns import normal_pattern
from parley.core.settings import LeaseSettings
from parley.hub.rules.idempotency import Once, earlier, remember
from parley.hub.rules.presence import return_agent
from parley.hub.transaction import Tx
from parley.wire.answers import LeaseResult
from parley.wire.entities import Lease
from parley.wire.events import LeaseAcquired, LeaseExpired, LeaseReleased
from parley.wire.requests import AcquireLease, ReleaseLease, RenewLease
from parley.workspace import queries
from parley.workspace.log import Draft
from parley.workspace.queries.leases import (
    conflicts,
    ended_leases,
    hold_of,
    lease_at,
    lease_generation,
    leases_held_by,
)

ENDED_BATCH: Final = 100

_INSERT: Final = (
    "INSERT INTO leases (id, holder, patterns, mode, reason, generation, acquired_at, expires_at, released_at, status)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_RENEW: Final = "UPDATE leases SET expires_at = ? WHERE id = ?"
_END: Final = "UPDATE leases SET status = ?, released_at = ? WHERE id = ?"
_WORDS: Final[dict[Loss, str]] = {
    "not_held": "has ended",
    "expired": "has expired",
    "other_holder": "is held by somebody else",
    "other_generation": "has another generation",
}


def acquire_lease(tx: Tx, request: AcquireLease, settings: LeaseSettings, once: Once | None = None) -> LeaseResult:
    """Reserves all of the patterns, or raises ``LeaseConflict`` with everything that is in the way.

    Asking again for exactly what the holder has renews that, instead of piling up leases.
    """
    if (before := earlier(tx, once)) is not None:
        return LeaseResult(lease_at(lease_of(tx, before.entity_id), tx.ts), before.event_id, duplicate=True)
    patterns = list(dict.fromkeys(map(normal_pattern, request.patterns)))
    expires_at = end_of(tx, request.ttl_seconds, settings.ttl_seconds, settings.ttl_seconds_max)
    return_agent(tx, request.holder)
    # What has ended is written down before its paths are given to another: if the clock is set back, it stays ended.
    while expire_leases(tx, ENDED_BATCH) == ENDED_BATCH:
        pass
    in_the_way = conflicts(tx.db, now=tx.ts, holder=request.holder, patterns=patterns, mode=request.mode)
    if in_the_way:
        holders = ", ".join(dict.fromkeys(hit.holder for hit in in_the_way))
        raise LeaseConflict(f"Reserved by {holders}", conflicts=in_the_way)
    again = _held_already(tx, request, patterns)
    if again is not None:
        renewed = _renew(tx, again, expires_at)
        remember(tx, once, "lease.acquire", renewed.id, None)
        return LeaseResult(renewed, None)
    lease = Lease(
        tx.new_id(ids.LEASE),
        request.holder,
        patterns,
        request.mode,
        request.reason,
        lease_generation(tx.db) + 1,
        tx.ts,
        expires_at,
        None,
        "active",
    )
    tx.db.execute(_INSERT, _row(lease))
    event_id = tx.append(Draft("lease.acquired", lease.id, LeaseAcquired(lease)))
    remember(tx, once, "lease.acquire", lease.id, event_id)
    return LeaseResult(lease, event_id)


def renew_lease(
    tx: Tx, lease_id: str, request: RenewLease, settings: LeaseSettings, once: Once | None = None
) -> LeaseResult:
    """Pushes the end on, counted from now. An end that is further away stays."""
    if (before := earlier(tx, once)) is not None:
        return LeaseResult(lease_at(lease_of(tx, before.entity_id), tx.ts), before.event_id, duplicate=True)
    lease = _held(tx, lease_id, request.holder, request.generation)
    expires_at = end_of(tx, request.ttl_seconds, settings.ttl_seconds, settings.ttl_seconds_max)
    renewed = _renew(tx, lease, expires_at)
    remember(tx, once, "lease.renew", lease_id, None)
    return LeaseResult(renewed, None)


def release_lease(tx: Tx, lease_id: str, request: ReleaseLease, once: Once | None = None) -> LeaseResult:
    """Gives the paths back. Releasing one's own lease again, or one that has expired, changes nothing."""
    if (before := earlier(tx, once)) is not None:
        return LeaseResult(lease_at(lease_of(tx, before.entity_id), tx.ts), before.event_id, duplicate=True)
    lease = lease_at(lease_of(tx, lease_id), tx.ts)
    if lease.status != "active" and (lease.holder, lease.generation) == (request.holder, request.generation):
        remember(tx, once, "lease.release", lease_id, None)
        return LeaseResult(lease, None)
    lease = _held(tx, lease_id, request.holder, request.generation)
    released, event_id = _release(tx, lease, request.holder, request.reason)
    remember(tx, once, "lease.release", lease_id, event_id)
    return LeaseResult(released, event_id)


def release_all_leases(tx: Tx, holder: str, reason: str) -> list[str]:
    """Gives back all that somebody holds, by the hub itself; what has ended already is said to have expired."""
    released: list[str] = []
    for lease in leases_held_by(tx.db, holder):
        if lease_at(lease, tx.ts).status == "expired":
            _expire(tx, lease)
        else:
            _release(tx, lease, None, reason)
            released.append(lease.id)
    return released


def expire_leases(tx: Tx, limit: int) -> int:
    """Writes down up to ``limit`` ends that have come, each with its event; how many there were."""
    ended = ended_leases(tx.db, tx.ts, limit)
    for lease in ended:
        _expire(tx, lease)
    return len(ended)


def lease_of(tx: Tx, lease_id: str) -> Lease:
    """The lease as it is written down. Raises ``NotFound``."""
    lease = queries.get_lease(tx.db, lease_id)
    if lease is None:
        raise NotFound(f"Lease not found: {lease_id}", lease_id=lease_id)
    return lease


def end_of(tx: Tx, asked: int | None, default: int, most: int) -> str:
    """When something ends that begins now. Raises ``InvalidInput`` for more than is allowed."""
    if asked is not None and asked > most:
        raise InvalidInput(f"ttl_seconds must be at most {most}", field="ttl_seconds", limit=most)
    return iso(tx.now_ms + (min(default, most) if asked is None else asked) * 1000)


def _held(tx: Tx, lease_id: str, holder: str, generation: int) -> Lease:
    """The lease, if the caller holds it now. Raises ``LeaseLost``."""
    lease = lease_of(tx, lease_id)
    loss = loss_of(hold_of(lease), holder=holder, generation=generation, now=tx.ts)
    if loss is not None:
        now = lease_at(lease, tx.ts)
        raise LeaseLost(
            f"Lease {lease_id} {_WORDS[loss]}",
            lease_id=lease_id,
            loss=loss,
            status=now.status,
            holder=now.holder,
            generation=now.generation,
            expires_at=now.expires_at,
        )
    return lease


def _held_already(tx: Tx, request: AcquireLease, patterns: list[str]) -> Lease | None:
    for lease in leases_held_by(tx.db, request.holder):
        same = lease.mode == request.mode and set(lease.patterns) == set(patterns)
        if same and lease_at(lease, tx.ts).status == "active":
            return lease
    return None


def _renew(tx: Tx, lease: Lease, expires_at: str) -> Lease:
    renewed = replace(lease, expires_at=max(lease.expires_at, expires_at))
    tx.db.execute(_RENEW, (renewed.expires_at, lease.id))
    return renewed


def _release(tx: Tx, lease: Lease, actor: str | None, reason: str | None) -> tuple[Lease, int]:
    released = replace(lease, status="released", released_at=tx.ts)
    tx.db.execute(_END, ("released", tx.ts, lease.id))
    return released, tx.append(Draft("lease.released", lease.id, LeaseReleased(released, actor, reason)))


def _expire(tx: Tx, lease: Lease) -> None:
    tx.db.execute(_END, ("expired", None, lease.id))
    tx.append(Draft("lease.expired", lease.id, LeaseExpired(replace(lease, status="expired"))))


def _row(lease: Lease) -> tuple[str | int | None, ...]:
    patterns = canonical_json(lease.patterns).decode()
    return (
        lease.id,
        lease.holder,
        patterns,
        lease.mode,
        lease.reason,
        lease.generation,
        lease.acquired_at,
        lease.expires_at,
        lease.released_at,
        lease.status,
    )
