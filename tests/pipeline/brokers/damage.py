"""Each kind of damage to a broker's store, as somebody with its file or its database would do it.

Whoever plants it does not keep foreign keys. ``:message`` stands for the id of the message that it is done to.
"""

from contextlib import closing
from typing import NamedTuple

import apsw
import psycopg

from tests.pipeline.brokers.worlds import World

_OF_MESSAGE = ("message", "client_message_dedupe", "delivery_queue", "mention_index", "message_history")


class Damage(NamedTuple):
    """What is done to which message, and the checks that have to name it."""

    name: str
    statements: tuple[str, ...]
    checks: frozenset[str]
    in_file: frozenset[str] = frozenset()
    """Those that only a file can be asked."""
    to: str = "c1"
    named: bool = True
    """Whether the findings name the message; what is wrong with a mesh or a number names that."""


def _where(statement: str) -> str:
    return f"{statement} WHERE broker_message_id = :message"


def _damage(name: str, *statements: str, found: str, in_file: str = "", to: str = "c1", named: bool = True) -> Damage:
    checks, file_checks = (frozenset(f"broker.{each}" for each in text.split()) for text in (found, in_file))
    return Damage(name, statements, checks, file_checks, to, named)


DAMAGES = (
    _damage("body removed", _where("DELETE FROM message"), found="id_without_message history_without_body"),
    _damage(
        "history removed",
        _where("DELETE FROM message_history"),
        found="id_without_history body_without_history delivery_without_message mention_without_message",
    ),
    _damage("id removed", _where("DELETE FROM client_message_dedupe"), found="message_without_id"),
    _damage("delivery removed", _where("DELETE FROM delivery_queue"), found="deliveries_missing"),
    _damage("mention removed", _where("DELETE FROM mention_index"), found="mention_differs"),
    _damage("body cut", _where("UPDATE message SET body = substr(body, 2)"), found="body_size_wrong"),
    _damage("body moved to another mesh", _where("UPDATE message SET mesh_id = 'other'"), found="body_without_history"),
    _damage(
        "marked as removed",
        _where("UPDATE client_message_dedupe SET history_available = 0"),
        found="pruned_but_there",
    ),
    _damage(
        "delivered to another mesh",
        "UPDATE delivery_queue SET recipient_id = (SELECT member_id FROM member WHERE display_name = 'eve')"
        " WHERE delivery_id = (SELECT min(delivery_id) FROM delivery_queue WHERE broker_message_id = :message)",
        found="delivery_to_stranger mention_differs",
    ),
    _damage("sent elsewhere", _where("UPDATE message_history SET ref = 'elsewhere'"), found="id_differs"),
    _damage(
        "sent by somebody else",
        _where("UPDATE message_history SET sender_id = (SELECT member_id FROM member WHERE display_name = 'eve')"),
        found="sender_is_stranger id_without_history",
    ),
    _damage(
        "known under another number",
        _where("UPDATE client_message_dedupe SET history_id = 999999"),
        found="id_without_history",
    ),
    _damage(
        "delivered and not ended",
        "UPDATE delivery_queue SET settled_ms = NULL WHERE state = 'delivered' AND broker_message_id = :message",
        found="delivery_state",
    ),
    _damage(
        "delivered and never sent",
        "UPDATE delivery_queue SET attempts = 0 WHERE state = 'delivered' AND broker_message_id = :message",
        found="delivered_without_attempt",
    ),
    _damage(
        "bytes counted wrong",
        "UPDATE mesh SET stored_bytes = stored_bytes + 1",
        found="stored_bytes_wrong",
        named=False,
    ),
    _damage("audit log changed", "UPDATE audit SET actor = 'eve' WHERE number = 2", found="audit_chain", named=False),
    _damage("audit log cut", "DELETE FROM audit WHERE number = 1", found="audit_chain", named=False),
    _damage(
        "removed with all its traces",
        *(_where(f"DELETE FROM {table}") for table in _OF_MESSAGE),
        found="",
        in_file="gap",
        to="c4",
        named=False,
    ),
    _damage(
        "the last one removed with all its traces",
        *(_where(f"DELETE FROM {table}") for table in _OF_MESSAGE),
        "UPDATE mesh SET stored_bytes = 0 WHERE slug = 'blue'",
        found="",
        in_file="gap",
        to="c-eve",
        named=False,
    ),
)
RENUMBERED = _damage(
    "put after the others",
    _where("UPDATE message_history SET history_id = 1000"),
    _where("UPDATE client_message_dedupe SET history_id = 1000"),
    found="",
    in_file="order",
)
"""The numbers of a database are its own to give."""


def plant(world: World, damage: Damage) -> str:
    """Does it; the message that it was done to."""
    ((message_id,),) = world.rows(
        "SELECT broker_message_id FROM message_history WHERE client_message_id = ?", damage.to
    )
    if world.place.startswith("postgresql"):
        with psycopg.connect(world.place) as connection:
            connection.execute("SET session_replication_role = replica")
            changed = [
                connection.execute(each.replace(":message", "%s").encode(), _given(each, message_id)).rowcount
                for each in damage.statements
            ]
    else:
        with closing(apsw.Connection(world.place)) as connection:
            changed = [_changed(connection, each, message_id) for each in damage.statements]
    assert changed[0] > 0
    return message_id


def _changed(connection: apsw.Connection, statement: str, message_id: str) -> int:
    connection.execute(statement, {"message": message_id} if ":message" in statement else None)
    return connection.changes()


def _given(statement: str, message_id: str) -> list[str] | None:
    return [message_id] * statement.count(":message") or None
