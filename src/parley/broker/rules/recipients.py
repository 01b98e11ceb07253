"""Who gets a message: one member, the subscribers of a topic, a group, or everybody; less those who do not want it.

A direct message that its recipient does not take is refused; whoever sends to many is not told which of them do not
listen.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from parley.broker.tx import Row, Tx
from parley.core.broker_errors import NoSuchDestination, NotSubscribed, RecipientRefuses
from parley.core.errors import InvalidInput, ParleyError, Refused
from parley.wire.broker import Send

CAPABILITIES: Final = ("broadcast", "dm", "topic")
"""What a member may take or not take from a peer, in the order in which a grant lists them."""
EVERYBODY: Final = "*"
GROUP_MARK: Final = "@"
MEMBER_ID: Final = "mem_"
"""How a member's id begins, and no key."""

_OF_KIND: Final = {"dm": "dm", "topic": "topic", "queue": "broadcast"}
_TAKES: Final = " LEFT JOIN peer_grant AS g ON g.member_id = m.member_id AND g.peer_id = ?"
_DIRECT: Final = (
    "SELECT m.member_id, g.capabilities FROM member_key AS k JOIN member AS m ON m.member_id = k.member_id"
    f"{_TAKES} WHERE k.mesh_id = ? AND k.pubkey = ? AND m.state = 'active'"
)
_BY_ID: Final = (
    f"SELECT m.member_id, g.capabilities FROM member AS m{_TAKES}"
    " WHERE m.mesh_id = ? AND m.member_id = ? AND m.state = 'active'"
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


_OF_KEY: Final = "SELECT member_id FROM member_key WHERE mesh_id = ? AND pubkey = ?"

Question = tuple[str, Row]


class Recipients(NamedTuple):
    """Who gets a message, in order, and which members of the mesh it mentions."""

    member_ids: tuple[str, ...]
    mentioned: frozenset[str]


Asked = tuple[str, str, Send]
"""A mesh, a sender in it, and what it sends."""


def find_recipients(tx: Tx, asked: Sequence[Asked]) -> list[Recipients | ParleyError]:
    """Phase B2, for each message: who gets it, or the refusal when it cannot go where it should."""
    questions = [_question(*each) for each in asked]
    rows = _answers(tx, [each for each in questions if not isinstance(each, ParleyError)])
    mentioned = _mentioned(tx, asked)
    found: list[Recipients | ParleyError] = []
    for each, question, names in zip(asked, questions, mentioned, strict=True):
        try:
            if isinstance(question, ParleyError):
                raise question
            found.append(Recipients(_chosen(tx, each, rows[question]), names))
        except Refused as error:
            found.append(error)
    return found


def _question(mesh_id: str, sender_id: str, send: Send) -> Question | ParleyError:
    """The query for all who may be meant."""
    ref = send.ref
    if send.kind == "dm":
        return (_BY_ID if ref.startswith(MEMBER_ID) else _DIRECT), (sender_id, mesh_id, ref)
    if send.kind == "topic":
        return _SUBSCRIBERS, (sender_id, mesh_id, ref)
    if ref == EVERYBODY:
        return _ALL, (sender_id, mesh_id)
    if not ref.startswith(GROUP_MARK) or len(ref) == 1:
        return InvalidInput("A queue is `*` or `@` and the name of a group", field="ref")
    group = ref[1:]
    return _GROUP, (sender_id, mesh_id, group, f"{group}/", f"{group}0")


def _answers(tx: Tx, questions: list[Question]) -> dict[Question, list[Row]]:
    """The rows of each question; what is asked twice is looked up once."""
    of_query: dict[str, dict[Row, None]] = {}
    for sql, values in questions:
        of_query.setdefault(sql, {})[values] = None
    return {
        (sql, values): found
        for sql, given in of_query.items()
        for values, found in zip(given, tx.each(sql, list(given)), strict=True)
    }


def _chosen(tx: Tx, asked: Asked, rows: list[Row]) -> tuple[str, ...]:
    """Those of the rows who get the message. Raises the refusal."""
    mesh_id, sender_id, send = asked
    capability = _OF_KIND[send.kind]
    if send.kind == "dm":
        if not rows:
            raise NoSuchDestination("No member of this mesh has this key or id", ref=send.ref)
        if not _takes(rows[0], capability):
            raise RecipientRefuses("The recipient takes no direct messages from the sender", ref=send.ref)
        return (rows[0][0],)
    if send.kind == "topic" and all(member_id != sender_id for member_id, _ in rows):
        if tx.one("SELECT 1 FROM topic WHERE mesh_id = ? AND name = ?", mesh_id, send.ref) is None:
            raise NoSuchDestination("There is no such topic in this mesh", ref=send.ref)
        raise NotSubscribed("The sender is not subscribed to the topic", ref=send.ref)
    if not rows:
        raise NoSuchDestination("Nobody is in this group", ref=send.ref)
    return _willing(rows, sender_id, capability)


def _willing(rows: Iterable[Row], sender_id: str, capability: str) -> tuple[str, ...]:
    return tuple(row[0] for row in rows if row[0] != sender_id and _takes(row, capability))


def _takes(row: Row, capability: str) -> bool:
    return row[1] is None or capability in row[1].split(",")


def _mentioned(tx: Tx, asked: Sequence[Asked]) -> list[frozenset[str]]:
    """The members whom each message names."""
    keys = list(dict.fromkeys((mesh_id, pubkey) for mesh_id, _, send in asked for pubkey in send.mentions))
    of_key = dict(zip(keys, tx.each(_OF_KEY, keys), strict=True))
    return [
        frozenset(member_id for pubkey in send.mentions for (member_id,) in of_key[mesh_id, pubkey])
        for mesh_id, _, send in asked
    ]
