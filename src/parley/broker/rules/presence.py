"""Presence: what a member says it is doing, and who is connected.

Connections are rows because several brokers may share the database; one that has not been seen for long belonged to a
broker that is gone.
"""

from collections.abc import Sequence
from typing import Final

from parley.broker.rules.deliver import presences, release
from parley.broker.tx import Tx
from parley.core.broker_errors import AlreadyConnected

WORKING_MS: Final = 15 * 60 * 1000
"""Who is working says so again before this is over; otherwise its messages would wait for somebody who is done."""

_DOING: Final = (
    "SELECT p.summary, (SELECT count(*) FROM connection AS c WHERE c.member_id = m.member_id)"
    " FROM member AS m LEFT JOIN presence AS p ON p.member_id = m.member_id WHERE m.member_id = ?"
)


def set_presence(tx: Tx, member_id: str, status: str, summary: str | None, for_ms: int | None) -> None:
    """What the member is doing now. ``working`` ends by itself."""
    until = tx.now_ms + for_ms if for_ms is not None else tx.now_ms + WORKING_MS if status == "working" else None
    tx.run(
        "INSERT INTO presence (member_id, status, summary, changed_ms, until_ms) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (member_id) DO UPDATE SET status = excluded.status, changed_ms = excluded.changed_ms,"
        " until_ms = excluded.until_ms, summary = CASE WHEN ? = 1 THEN excluded.summary ELSE presence.summary END",
        *(member_id, status, summary or "", tx.now_ms, until, int(summary is not None)),
    )


def connect(
    tx: Tx,
    *,
    connection_id: str,
    broker_instance: str,
    mesh_id: str,
    member_id: str,
    instance_id: str,
    policy: str,
    stale_ms: int,
    age_ms: int = 0,
) -> tuple[str, ...]:
    """Writes the connection down; which others it replaces.

    Of the same daemon the newest counts; of another daemon the mesh's policy decides. One that was not seen for
    ``stale_ms`` is gone, whatever its row says. The newest is the one that was opened last, ``age_ms`` ago: a hello
    that was long on its way, of a connection or a daemon that is gone, must not push out the one that came after it.
    """
    opened_ms = tx.now_ms - age_ms
    rows = tx.all(
        "SELECT connection_id, instance_id, seen_ms, connected_ms FROM connection WHERE member_id = ?", member_id
    )
    # A time that has not come yet was written before the clock was set back, and tells nothing.
    newer = [
        each
        for each, instance, _, since_ms in rows
        if opened_ms < since_ms <= tx.now_ms and (instance == instance_id or policy != "allow_concurrent")
    ]
    if newer:
        raise AlreadyConnected("The member has a newer connection", connections=len(newer))
    others = [row[:3] for row in rows]
    same = [each for each, instance, _ in others if instance == instance_id]
    foreign = [each for each, instance, _ in others if instance != instance_id]
    if policy == "prefer_oldest" and any(
        instance != instance_id and seen_ms > tx.now_ms - stale_ms for _, instance, seen_ms in others
    ):
        raise AlreadyConnected("Another daemon is connected as this member", connections=len(foreign))
    replaced = same if policy == "allow_concurrent" else [*same, *foreign]
    for each in replaced:
        disconnect(tx, each)
    tx.run(
        "INSERT INTO connection (connection_id, broker_instance, mesh_id, member_id, instance_id, connected_ms,"
        " seen_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
        *(connection_id, broker_instance, mesh_id, member_id, instance_id, opened_ms, tx.now_ms),
    )
    tx.run("UPDATE member SET seen_ms = ? WHERE member_id = ?", tx.now_ms, member_id)
    return tuple(replaced)


def disconnect(tx: Tx, connection_id: str) -> tuple[str, ...]:
    """Takes the connection out and queues again what it had leased; whom that is for.

    A member whose time away counts was here until now.
    """
    tx.run(
        "UPDATE member SET seen_ms = ? WHERE ephemeral = 1"
        " AND member_id = (SELECT member_id FROM connection WHERE connection_id = ?)",
        *(tx.now_ms, connection_id),
    )
    tx.run("DELETE FROM connection WHERE connection_id = ?", connection_id)
    return release(tx, connection_id)


def seen(tx: Tx, connection_ids: list[str]) -> None:
    """These are still connected."""
    tx.many("UPDATE connection SET seen_ms = ? WHERE connection_id = ?", ((tx.now_ms, each) for each in connection_ids))


def forget_connections(tx: Tx, before_ms: int) -> tuple[str, ...]:
    """Ends the connections that nobody has seen since; whom something is queued for again."""
    gone = tx.all("SELECT connection_id FROM connection WHERE seen_ms < ?", before_ms)
    return tuple(member_id for (each,) in gone for member_id in disconnect(tx, each))


def forget_all_connections(tx: Tx) -> None:
    """At the start of a broker that has the database for itself, none of its connections can be there yet."""
    for (each,) in tx.all("SELECT connection_id FROM connection"):
        disconnect(tx, each)


def doings(tx: Tx, member_ids: Sequence[str]) -> dict[str, tuple[str, str, bool]]:
    """Status, summary and whether it is connected, of each of these members."""
    rows = tx.each(_DOING, [(each,) for each in member_ids])
    states = presences(tx, member_ids)
    return {
        each: (states[each], summary or "", connections > 0)
        for each, ((summary, connections),) in zip(member_ids, rows, strict=True)
    }
