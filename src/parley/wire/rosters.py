"""What version 2 of a broker's protocol adds: a mesh whose members are decided by a roster, which the broker carries.

The broker says in its ``challenge`` how new a version it speaks. A daemon answers with ``roster_hello``, which is
signed for the fingerprint of the mesh's roster and not for an id that a broker chose, and tells the newest head that it
has. From ``roster_welcome`` on everything is as in version 1, but for the members: the methods that change them are
refused, and ``roster_append`` and ``roster_read`` take their place.

Who bears an invite and is no member yet says hello without a ``member_id``: with the invite as its issuer signed it,
and a signature of the invite's own key. It may read the roster and append its own ``join``, and nothing else.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from parley.core import limits
from parley.core.canonical import canonical_json
from parley.core.roster.entries import Count, Hex32, Hex64, Invite
from parley.core.roster.heads import Head
from parley.wire.requests import Id

_HELLO: Final = "parley broker hello 2"

EntryText = str
"""An entry's bytes as text: canonical JSON, which nobody writes anew on its way."""
Entries = Annotated[list[EntryText], Meta(min_length=1, max_length=limits.ROSTER_APPEND_ENTRIES_MAX)]
"""Entries in their order, which are taken together or not at all."""
Page = Annotated[int, Meta(ge=1, le=limits.PAGE_LIMIT_MAX)]


class RosterHello(msgspec.Struct, frozen=True, tag_field="type", tag="roster_hello"):
    """Who connects, in version 2. ``signature`` is by the key, over ``roster_hello_bytes``."""

    mesh_id: Id
    """Where the broker finds the roster; what counts is the fingerprint."""
    fingerprint: Hex32
    pubkey: Hex32
    signature: Hex64
    instance_id: Id
    member_id: Id | None = None
    """None for the bearer of an invite."""
    head: Head | None = None
    """The newest head that the daemon has seen, from whomever."""
    invite: Invite | None = None
    invite_signature: Hex64 | None = None
    """By the invite's own key, over the same bytes."""
    host_fingerprint: str = ""
    daemon_version: str = ""


class RosterStanding(msgspec.Struct, frozen=True):
    """A roster as its broker carries it now."""

    fingerprint: str
    head: Head
    restoring: bool = False
    """Whether the broker was restored from a backup and no owner has confirmed the head yet."""
    told: Head | None = None
    """Meanwhile: the newest head that a member has come with, which this broker signed before."""


class AppendEntries(msgspec.Struct, frozen=True):
    """Entries that follow the one with the number ``after``."""

    after: Count
    entries: Entries


class ReadRoster(msgspec.Struct, frozen=True):
    """The entries from a number on, so many at most."""

    start: Count = 0
    limit: Page = limits.PAGE_LIMIT_MAX


class ConfirmRoster(msgspec.Struct, frozen=True):
    """What a restored broker lost, in parts; with the last part the head at which the mesh goes on."""

    after: Count
    entries: Annotated[list[EntryText], Meta(max_length=limits.ROSTER_APPEND_ENTRIES_MAX)] = []
    confirmed: Hex32 | None = None
    """The hash of the newest entry, as the owner knows it. Without it more is to come."""


def roster_hello_bytes(*, nonce: str, broker_id: str, hello: RosterHello) -> bytes:
    """What a member, or a joiner and its invite, sign to connect. No other broker, mesh or connection can use it."""
    told = None if hello.head is None else [hello.head.n, hello.head.hash]
    invite = None if hello.invite is None else hello.invite.id
    said = [
        broker_id,
        nonce,
        hello.fingerprint,
        hello.member_id,
        hello.pubkey,
        hello.instance_id,
        hello.host_fingerprint,
        told,
        invite,
    ]
    return b"\n".join((_HELLO.encode(), canonical_json(said)))
