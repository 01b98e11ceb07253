"""Sealing and opening messages of a mesh that has a roster, with nothing but the member's own copy of it.

Sealing happens in the transaction that takes a row to be sent for the first time, opening in the one that stores a
message; both run beside the errands that make the copy grow, and are handed a view of it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from parley.core import sealed_messages, sealing, untrusted_json
from parley.core.errors import Refused
from parley.core.limits import VERSION_MAX
from parley.core.roster import Member, State
from parley.core.roster.epoch_keys import EpochKeys, fits
from parley.core.roster.heads import Head, is_by_broker, judge_head
from parley.core.sealed_messages import Context, Said, Unopened
from parley.core.sealing import Random
from parley.daemon.inbox.receive import Opened, SealedMessage, TurnedDown, Waiting
from parley.daemon.outbox.accept import Message, Sealed
from parley.daemon.outbox.rows import OutboxRow, send_frame
from parley.daemon.outbox.sending import Delay, Hopeless
from parley.daemon.rosters.acts import newest_keys
from parley.daemon.rosters.copy import View
from parley.daemon.sealer import check_meta
from parley.wire.broker import wire_fingerprint

_ANY_HEAD: Final = Head(VERSION_MAX, "0" * 64, "0" * 128)
_AROUND_BYTES: Final = sealing.SHARED_OVERHEAD_BYTES + sealing.SIGNATURE_BYTES
"""What is around what a message says for several; around one for one member there is less."""
NO_KEY: Final = "the mesh key has not arrived yet"
KEY_OWED: Final = "a new mesh key is being made, since somebody was removed"
NO_ROSTER: Final = "the roster has not been read yet"
SPLIT: Final = "the broker has shown two rosters; an owner settles it with `parley mesh settle`"
GONE: Final = "the recipient is not a member any more"


class Reader(NamedTuple):
    """The member as far as it seals and opens: asked anew each time, since all of it changes."""

    member_id: str
    seed: bytes
    seeds: Sequence[bytes]
    view: View | None
    held: Sequence[EpochKeys]


Who = Callable[[], Reader]


def sealed_size(message: Message) -> int:
    """How large the message will be at most, once it is sealed."""
    inside = msgspec.json.encode(Said(message.payload.decode(), message.meta, _ANY_HEAD))
    return len(inside) + _AROUND_BYTES


def seal_row(row: OutboxRow, who: Reader, random: Random) -> Sealed | Delay | Hopeless:
    """The row as the broker will carry it; or why it has to wait, or cannot be sent at all."""
    view = who.view
    if view is None:
        return Delay(NO_ROSTER)
    if view.marks.split is not None:
        return Delay(SPLIT)
    keys = newest_keys(view.state, who.held)
    if keys is None or keys.epoch != view.state.epoch:
        return Delay(NO_KEY)
    if view.state.owed == "now":
        return Delay(KEY_OWED)
    try:
        body = _sealed(row, who, view, keys, random)
        if body is None:
            return Hopeless(GONE)
        pubkey = sealing.public_key(who.seed).hex()
        frame = send_frame(replace(row, sealed=b"", key_epoch=keys.epoch, sender_identity=pubkey))
        return Sealed(pubkey, body, keys.epoch, wire_fingerprint(frame, body))
    except (msgspec.DecodeError, UnicodeDecodeError, Refused) as error:
        return Hopeless(f"the message cannot be sealed: {error}")


def open_message(message: SealedMessage, who: Reader) -> Opened | TurnedDown | Waiting | None:
    """What the message says; None when no key of ours opens it."""
    view = who.view
    if view is None:
        return Waiting(None)
    sender = view.state.members.get(message.sender_id)
    if sender is None:
        return TurnedDown("unknown_sender") if message.again else Waiting(None)
    reason = _distrust(view.state, sender, message)
    if reason is not None:
        return Waiting(None) if reason == "unknown_key" and not message.again else TurnedDown(reason)
    if message.key_epoch is None:
        return None
    if message.key_epoch > view.state.epoch and not message.again:
        return Waiting(None)
    said = _opened(message, who, view.state)
    if said == "unproven":
        return TurnedDown("sender_not_proven")
    if isinstance(said, str):
        return None
    try:
        check_meta(said.meta)
    except Refused:
        return None
    return _judged(said, view, message)


def _judged(said: Said, view: View, message: SealedMessage) -> Opened | TurnedDown | Waiting:
    """The message, if what it says of the roster may be so."""
    head = said.head
    if head is None:
        return TurnedDown("no_head")
    verdict = judge_head(view.state, view.hash_of, head)
    if verdict == "lie":
        return TurnedDown("lied_about_roster")
    if verdict == "ahead" and not _is_owed(head, view):
        return TurnedDown("lied_about_roster") if message.again else Waiting(head)
    if verdict == "ahead" and view.marks.split is None:
        return Waiting(head)
    return Opened(said.body, said.meta, head)


def _is_owed(head: Head, view: View) -> bool:
    key = view.state.broker_at(head.n)
    return bool(key) and is_by_broker(head, key, view.state.fingerprint)


def _distrust(state: State, sender: Member, message: SealedMessage) -> str | None:
    """Why nothing that comes from this sender under this key and epoch is shown as said; None if it is."""
    epoch = message.key_epoch or 0
    if sender.status in ("removed", "banned"):
        return "sender_removed"
    if not sender.is_active and epoch > _epoch_at(state, sender.ended or 0):
        return "sender_left"
    if message.sender_pubkey == sender.key:
        return None
    old = next((each for each in sender.old_keys if each.key == message.sender_pubkey), None)
    if old is None:
        return "unknown_key"
    if old.compromised:
        return "compromised_key"
    return "replaced_key" if epoch > old.epoch else None


def _epoch_at(state: State, n: int) -> int:
    return sum(made.n <= n for made in state.epochs.values())


def _sealed(row: OutboxRow, who: Reader, view: View, keys: EpochKeys, random: Random) -> bytes | None:
    state = view.state
    said = Said(row.payload.decode(), untrusted_json.decode(row.meta, dict[str, Any]), view.marks.head)
    context = Context(
        state.fingerprint,
        row.destination_kind,
        row.destination_ref,
        who.member_id,
        row.client_message_id,
        keys.epoch,
        row.reply_to_id or "",
    )
    if row.destination_kind != "dm":
        return sealed_messages.seal_for_several(said, context, sender_seed=who.seed, mesh_key=keys.mesh, random=random)
    recipient = state.members.get(row.destination_ref)
    if recipient is None or not recipient.is_active:
        return None
    return sealed_messages.seal_for_one(
        said, context, sender_seed=who.seed, recipient=bytes.fromhex(recipient.key), random=random
    )


def _opened(message: SealedMessage, who: Reader, state: State) -> Said | Unopened:
    assert message.key_epoch is not None
    context = Context(
        state.fingerprint,
        message.kind,
        message.ref,
        message.sender_id,
        message.client_message_id,
        message.key_epoch,
        message.reply_to,
    )
    try:
        sender = bytes.fromhex(message.sender_pubkey)
    except ValueError:
        return "closed"
    if message.kind == "dm":
        return _opened_for_one(message, context, who, sender) if message.ref == who.member_id else "closed"
    found: Said | Unopened = "closed"
    for keys in who.held:
        if keys.epoch == message.key_epoch and keys.mesh and fits(state, keys):
            found = sealed_messages.open_for_several(message.sealed, context, mesh_key=keys.mesh, sender=sender)
    return found


def _opened_for_one(message: SealedMessage, context: Context, who: Reader, sender: bytes) -> Said | Unopened:
    """By whichever of the member's keys it was sealed to."""
    for seed in who.seeds:
        found = sealed_messages.open_for_one(message.sealed, context, recipient_seed=seed, sender=sender)
        if found != "closed":
            return found
    return "closed"
