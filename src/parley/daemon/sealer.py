"""Sealing what goes out and opening what comes in, with the keys of one membership.

What a message says and its metadata are sealed together: a broker sees who, where, when and how much, and nothing else.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from parley.core import sealing, untrusted_json
from parley.core.daemon_errors import MeshKeyMissing
from parley.core.errors import Refused
from parley.core.limits import SEALED_META_BYTES_MAX
from parley.core.metadata import check_metadata
from parley.core.sealing import Context, Random
from parley.daemon.inbox.receive import Opened, SealedMessage
from parley.daemon.memberships import Membership
from parley.daemon.outbox.accept import Message, Sealed, sealed_fingerprint


class _Inside(msgspec.Struct, frozen=True):
    """What is sealed."""

    body: str
    meta: dict[str, Any] = {}


def seal(message: Message, membership: Membership, random: Random) -> Sealed:
    """The message as the broker will carry it. Raises ``MeshKeyMissing`` while the member has no mesh key yet, and
    ``InvalidInput`` or ``PayloadTooLarge`` for metadata that no recipient would take."""
    check_meta(message.meta)
    where = message.destination
    pubkey = membership.pubkey
    context = Context(where.mesh_id, where.kind, where.ref, pubkey, message.reply_to_id or "")
    inside = msgspec.json.encode(_Inside(message.payload.decode(), message.meta))
    epoch: int | None = None
    if where.kind == "dm":
        body = sealing.seal_direct(
            inside,
            context,
            sender_seed=membership.seed_bytes,
            recipient=bytes.fromhex(where.ref),
            random=random,
        )
    else:
        key = membership.newest_key
        if key is None:
            raise MeshKeyMissing("The mesh key has not arrived yet", mesh=membership.slug, since=membership.joined_at)
        epoch = key.epoch
        body = sealing.seal_shared(inside, context, mesh_key=bytes.fromhex(key.key), random=random)
    return Sealed(pubkey, body, epoch, sealed_fingerprint(message, body, epoch))


def open_sealed(message: SealedMessage, membership: Membership, seeds: Iterable[bytes]) -> Opened | None:
    """What the message says; None when no key of ours opens it. ``seeds`` are the member's, replaced ones included."""
    context = Context(membership.mesh_id, message.kind, message.ref, message.sender_pubkey, message.reply_to)
    for inside in _attempts(message, context, membership, seeds):
        if inside is None:
            continue
        try:
            found = untrusted_json.decode(inside, _Inside)
            check_meta(found.meta)
        except (msgspec.DecodeError, Refused):
            return None  # sealed by a member, but not by a program that speaks as ours do
        return Opened(found.body, found.meta)
    return None


def check_meta(meta: dict[str, Any]) -> None:
    """Judged by who sends it and again by who receives it, since a sender's program may be any."""
    check_metadata("meta", meta, SEALED_META_BYTES_MAX, field="meta")


def _attempts(
    message: SealedMessage, context: Context, membership: Membership, seeds: Iterable[bytes]
) -> Iterable[bytes | None]:
    if message.kind == "dm":
        for seed in seeds:
            if sealing.public_key(seed).hex() == message.ref:
                yield sealing.open_direct(message.sealed, context, recipient_seed=seed)
        return
    for each in membership.mesh_keys:
        if each.epoch == message.key_epoch:
            yield sealing.open_shared(message.sealed, context, mesh_key=bytes.fromhex(each.key))
