"""What is old goes: messages after some days, and the ids of messages long after them.

A message goes with its history, its deliveries and its mentions; its id stays, and says that the history is no longer
available, until no daemon can still be trying to send it. A delivery that waited for as long is given up first, so that
its sender can learn that it is dead.
"""

from typing import NamedTuple

from parley.broker.policy import DAY_MS, Policy
from parley.broker.rules.deliver import expire
from parley.broker.rules.limits import forget_windows
from parley.broker.rules.presence import forget_connections
from parley.broker.tx import Tx


class Swept(NamedTuple):
    """What a sweep did."""

    expired: int
    """Deliveries that were given up."""
    messages: int
    """Messages that were removed."""
    ids: int
    """Ids that were forgotten."""
    woken: tuple[str, ...]
    """Members for whom something is queued again."""


def sweep_leases(tx: Tx, policy: Policy) -> tuple[str, ...]:
    """Ends leases that are over and connections that are gone; for whom something is queued again."""
    stale_ms = tx.now_ms - policy.silence_ms
    return tuple(sorted({*expire(tx, policy.lease_ms), *forget_connections(tx, stale_ms)}))


def sweep(tx: Tx, policy: Policy, count: int) -> Swept:
    """Removes up to ``count`` messages, so that whoever else wants to write gets their turn."""
    woken = sweep_leases(tx, policy)
    forget_windows(tx, policy.rate_window_ms)
    given_up = _give_up(tx, policy)
    messages = _remove_messages(tx, policy, count)
    ids = tx.run("DELETE FROM client_message_dedupe WHERE expires_ms IS NOT NULL AND expires_ms < ?", tx.now_ms)
    return Swept(given_up, messages, ids, woken)


def _give_up(tx: Tx, policy: Policy) -> int:
    """Deliveries that waited for too long. They stay as long as their message, so that they are seen to be dead.

    The states are named as in the index of what is due, so that only those are looked at.
    """
    return tx.run(
        "UPDATE delivery_queue SET state = 'dead', reason = 'expired', settled_ms = ?, leased_by = NULL,"
        " lease_until_ms = NULL WHERE state IN ('queued', 'leased') AND state = 'queued' AND queued_ms < ?",
        *(tx.now_ms, tx.now_ms - policy.delivery_days * DAY_MS),
    )


def _remove_messages(tx: Tx, policy: Policy, count: int) -> int:
    before = tx.now_ms - policy.message_days * DAY_MS
    old = tx.all(
        "SELECT h.mesh_id, h.broker_message_id, h.body_bytes FROM message_history AS h WHERE h.accepted_ms < ?"
        " AND NOT EXISTS (SELECT 1 FROM delivery_queue AS d WHERE d.broker_message_id = h.broker_message_id"
        " AND d.state = 'leased') ORDER BY h.accepted_ms LIMIT ?",
        *(before, count),
    )
    if not old:
        return 0
    freed: dict[str, int] = {}
    for mesh_id, _, size in old:
        freed[mesh_id] = freed.get(mesh_id, 0) + size
    for mesh_id in sorted(freed):
        tx.run("UPDATE mesh SET stored_bytes = stored_bytes - ? WHERE mesh_id = ?", freed[mesh_id], mesh_id)
    ids = [(message_id,) for _, message_id, _ in old]
    tx.many("UPDATE client_message_dedupe SET history_available = 0 WHERE broker_message_id = ?", ids)
    for table in ("mention_index", "delivery_queue", "message", "message_history"):
        tx.many(f"DELETE FROM {table} WHERE broker_message_id = ?", ids)
    return len(ids)
