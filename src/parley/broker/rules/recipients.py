"""Who gets a message: one member, the subscribers of a topic, a group, or everybody; less those who do not want it.

A direct message that its recipient does not take is refused; whoever sends to many is not told which of them do not
listen.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from parley.broker.tx import Row, Tx
from parley.core.broker_errors import NoSuchDestination, NotSubscribed, RecipientRefuses
from parley.core.errors import InvalidInput
from parley.wire.broker import Send

CAPABILITIES: Final = ("broadcast", "dm", "topic")
"""What a member may take or not take from a peer, in the order in which a grant lists them."""
EVERYBODY: Final = "*"
GROUP_MARK: Final = "@"

_OF_KIND: Final = {"dm": "dm", "topic": "topic", "queue": "broadcast"}
_TAKES: Final = " LEFT JOIN peer_grant AS g ON g.member_id = m.member_id AND g.peer_id = ?"
_DIRECT: Final = (
    "SELECT m.member_id, g.capabilities FROM member_key AS k JOIN member AS m ON m.member_id = k.member_id"
    f"{_TAKES} WHERE k.mesh_id = ? AND k.pubkey = ? AND m.state = 'active'"
)
_SUBSCRIBERS: Final = (
    "SELECT m.member_id, g.capabilities FROM topic_subscription AS s JOIN member AS m ON m.member_id = s.member_id"
    f"{_TAKES} WHERE s.mesh_id = ? AND s.topic = ? AND m.state = 'active' ORDER BY m.member_id"
)
# A group reaches those below it: '0' is the character that follows '/'.
_GROUP: Final = (
    "SELECT DISTINCT m.member_id, g.capabilities FROM group_member AS s JOIN member AS m ON m.member_id = s.member_id"
    f"{_TAKES} WHERE s.mesh_id = ? AND (s.group_name = ? OR (s.group_name >= ? AND s.group_name < ?))"
    " AND m.state = 'active' ORDER BY m.member_id"
)
_ALL: Final = (
    f"SELECT m.member_id, g.capabilities FROM member AS m{_TAKES}"
    " WHERE m.mesh_id = ? AND m.state = 'active' ORDER BY m.member_id"
)


class Recipients(NamedTuple):
    """Who gets a message, in order, and which members of the mesh it mentions."""

    member_ids: tuple[str, ...]
    mentioned: frozenset[str]


def find_recipients(tx: Tx, mesh_id: str, sender_id: str, send: Send) -> Recipients:
    """Phase B2. Raises the refusal when the message cannot go where it should."""
    capability = _OF_KIND[send.kind]
    if send.kind == "dm":
        ids = _direct(tx, mesh_id, sender_id, send.ref, capability)
    elif send.kind == "topic":
        ids = _subscribers(tx, mesh_id, sender_id, send.ref, capability)
    else:
        ids = _queue(tx, mesh_id, sender_id, send.ref, capability)
    return Recipients(ids, frozenset(_members_with(tx, mesh_id, send.mentions)))


def _direct(tx: Tx, mesh_id: str, sender_id: str, pubkey: str, capability: str) -> tuple[str, ...]:
    found = tx.one(_DIRECT, sender_id, mesh_id, pubkey)
    if found is None:
        raise NoSuchDestination("No member of this mesh has this key", ref=pubkey)
    if not _takes(found, capability):
        raise RecipientRefuses("The recipient takes no direct messages from the sender", ref=pubkey)
    return (found[0],)


def _subscribers(tx: Tx, mesh_id: str, sender_id: str, topic: str, capability: str) -> tuple[str, ...]:
    rows = tx.all(_SUBSCRIBERS, sender_id, mesh_id, topic)
    if all(member_id != sender_id for member_id, _ in rows):
        if tx.one("SELECT 1 FROM topic WHERE mesh_id = ? AND name = ?", mesh_id, topic) is None:
            raise NoSuchDestination("There is no such topic in this mesh", ref=topic)
        raise NotSubscribed("The sender is not subscribed to the topic", ref=topic)
    return _willing(rows, sender_id, capability)


def _queue(tx: Tx, mesh_id: str, sender_id: str, ref: str, capability: str) -> tuple[str, ...]:
    if ref == EVERYBODY:
        return _willing(tx.all(_ALL, sender_id, mesh_id), sender_id, capability)
    if not ref.startswith(GROUP_MARK) or len(ref) == 1:
        raise InvalidInput("A queue is `*` or `@` and the name of a group", field="ref")
    group = ref[1:]
    rows = tx.all(_GROUP, sender_id, mesh_id, group, f"{group}/", f"{group}0")
    if not rows:
        raise NoSuchDestination("Nobody is in this group", ref=ref)
    return _willing(rows, sender_id, capability)


def _willing(rows: Iterable[Row], sender_id: str, capability: str) -> tuple[str, ...]:
    return tuple(row[0] for row in rows if row[0] != sender_id and _takes(row, capability))


def _takes(row: Row, capability: str) -> bool:
    return row[1] is None or capability in row[1].split(",")


def _members_with(tx: Tx, mesh_id: str, pubkeys: list[str]) -> list[str]:
    if not pubkeys:
        return []
    marks = ", ".join("?" * len(pubkeys))
    found = tx.all(f"SELECT member_id FROM member_key WHERE mesh_id = ? AND pubkey IN ({marks})", mesh_id, *pubkeys)
    return [member_id for (member_id,) in found]
