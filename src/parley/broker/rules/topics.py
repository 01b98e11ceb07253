"""Topics and groups: a topic is there once somebody subscribed to it, a group as long as somebody is in it."""

from collections.abc import Sequence

from parley.broker.rules.members import active_member, lock_mesh
from parley.broker.tx import Tx


def subscribe(tx: Tx, mesh_id: str, member_id: str, topic: str) -> bool:
    """Subscribes the member, and makes the topic if there is none. False when it was subscribed before."""
    lock_mesh(tx, mesh_id)
    active_member(tx, mesh_id, member_id)
    tx.run(
        "INSERT INTO topic (mesh_id, name, created_by, created_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (mesh_id, name) DO NOTHING",
        *(mesh_id, topic, member_id, tx.now_ms),
    )
    return bool(
        tx.run(
            "INSERT INTO topic_subscription (mesh_id, topic, member_id, since_ms) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (mesh_id, topic, member_id) DO NOTHING",
            *(mesh_id, topic, member_id, tx.now_ms),
        )
    )


def unsubscribe(tx: Tx, mesh_id: str, member_id: str, topic: str) -> bool:
    """Ends a subscription; what was queued for it still comes. False when there was none."""
    lock_mesh(tx, mesh_id)
    where = "mesh_id = ? AND topic = ? AND member_id = ?"
    return bool(tx.run(f"DELETE FROM topic_subscription WHERE {where}", mesh_id, topic, member_id))


def join_group(tx: Tx, mesh_id: str, member_id: str, group: str) -> bool:
    """Puts the member into the group. False when it was in it."""
    lock_mesh(tx, mesh_id)
    active_member(tx, mesh_id, member_id)
    return bool(
        tx.run(
            "INSERT INTO group_member (mesh_id, group_name, member_id, since_ms) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (mesh_id, group_name, member_id) DO NOTHING",
            *(mesh_id, group, member_id, tx.now_ms),
        )
    )


def leave_group(tx: Tx, mesh_id: str, member_id: str, group: str) -> bool:
    """Takes the member out of the group. False when it was not in it."""
    lock_mesh(tx, mesh_id)
    where = "mesh_id = ? AND group_name = ? AND member_id = ?"
    return bool(tx.run(f"DELETE FROM group_member WHERE {where}", mesh_id, group, member_id))


def list_topics(tx: Tx, mesh_id: str, member_id: str) -> list[dict[str, object]]:
    """The topics of the mesh by name, with how many are subscribed and whether the member is."""
    rows = tx.all(
        "SELECT t.name, t.created_ms, count(s.member_id), max(CASE WHEN s.member_id = ? THEN 1 ELSE 0 END)"
        " FROM topic AS t LEFT JOIN topic_subscription AS s ON s.mesh_id = t.mesh_id AND s.topic = t.name"
        " WHERE t.mesh_id = ? GROUP BY t.name, t.created_ms ORDER BY t.name",
        *(member_id, mesh_id),
    )
    return [{"topic": row[0], "created_ms": row[1], "subscribers": row[2], "subscribed": bool(row[3])} for row in rows]


def groups_of(tx: Tx, member_ids: Sequence[str]) -> dict[str, list[str]]:
    """The groups of each of these members."""
    sql = "SELECT group_name FROM group_member WHERE member_id = ? ORDER BY group_name"
    found = tx.each(sql, [(each,) for each in member_ids])
    return {each: [name for (name,) in rows] for each, rows in zip(member_ids, found, strict=True)}
