"""Entries of a roster: what each kind says, how it is written, signed and read.

An entry is the canonical JSON (RFC 8785) of ``n``, ``prev``, ``kind``, ``by``, ``at``, ``body`` and ``sig``. ``prev``
is the hash of the whole entry before it, its signature included, so a hash stands for everything up to there. The first
entry's hash is the roster's *fingerprint*, and every later signature is made over it, so that nothing signed for one
mesh means anything in another.

Reading an entry here tells whether it is one at all: its size, its form, and that these bytes are the only way to write
it. Whether it may stand where it stands is for ``rules`` to say.
"""

import hashlib
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta

from parley.core import sealing
from parley.core.canonical import canonical_json, parse_strict
from parley.core.errors import InvalidInput
from parley.core.limits import ROSTER_ENTRY_BYTES_MAX, VERSION_MAX

RULES: Final = 1
"""The version of the rules that this code knows."""
NOTHING_BEFORE: Final = "0" * 64
"""What the first entry follows."""
HASH_BYTES: Final = 32
_ENTRY: Final = b"parley roster entry 1"
_INVITE: Final = b"parley roster invite 1"
_JOIN: Final = b"parley roster join 1"
_ROTATION: Final = b"parley roster rotation 1"
_COMMITMENT: Final = "parley roster key 1"

_END = r"(?![\s\S])"
Hex32 = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{64}}{_END}")]
"""A public key, a hash or a commitment."""
Hex64 = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{128}}{_END}")]
MemberId = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_-]{{1,64}}{_END}")]
Name = Annotated[str, Meta(pattern=rf"^[a-z0-9][a-z0-9._-]{{0,31}}{_END}")]
"""ASCII alone, so that no table of Unicode decides who is called what."""
Count = Annotated[int, Meta(ge=0, le=VERSION_MAX)]
Time = Annotated[int, Meta(ge=0, le=VERSION_MAX)]
"""Milliseconds since 1970."""
Role = Literal["member", "admin", "owner"]
Sealed = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{2,400}}{_END}")]


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an entry says. Each member is always there, so that there is one way to say it."""


class Found(Body, frozen=True):
    """The first entry: a mesh begins with one owner."""

    salt: Hex32
    rules: Annotated[int, Meta(ge=1, le=VERSION_MAX)]
    key: Hex32
    name: Name


class NameBroker(Body, frozen=True):
    """The broker that carries the mesh from here on, by its key."""

    key: Hex32


class Adopted(Body, frozen=True):
    """A member of a mesh that is older than its roster, under the id that it had."""

    id: MemberId
    key: Hex32
    name: Name
    role: Role


class Adopt(Body, frozen=True):
    """Members of a mesh that is older than its roster, the most senior first; the founder is one of them."""

    members: Annotated[list[Adopted], Meta(min_length=1)]


class Invite(Body, frozen=True):
    """What lets others join, as its issuer signed it. Its id is the public half of its secret."""

    id: Hex32
    issuer: MemberId
    role: Role
    uses: Annotated[int, Meta(ge=1, le=VERSION_MAX)]
    expires: Time
    n: Count
    """The newest entry when the invite was made; a joiner is shown this one and those before it, or refuses."""
    head: Hex32
    state: Hex32 | None
    """The hash of the newest checkpoint's state, where a joiner may start that does not read what came before."""
    sig: Hex64


class Join(Body, frozen=True):
    """A new member. The invite's own key countersigns, which only a holder of its secret can have done."""

    name: Name
    invite: Invite
    until: Time | None
    """When an ephemeral membership ends unless it is renewed; None for one that lasts."""
    countersig: Hex64


class Leave(Body, frozen=True):
    """The author goes."""


class Rename(Body, frozen=True):
    """The author is called otherwise."""

    name: Name


class Renew(Body, frozen=True):
    """The author's ephemeral membership lasts longer."""

    until: Time


class Rotate(Body, frozen=True):
    """The author has another key, which countersigns. The entry itself is signed by the old one."""

    key: Hex32
    compromised: bool
    countersig: Hex64


class OfMember(Body, frozen=True):
    """Whom a ``remove``, ``ban`` or ``unban`` is about."""

    member: MemberId


class SetRole(Body, frozen=True):
    """What a member may do from here on."""

    member: MemberId
    role: Role


class RevokeInvite(Body, frozen=True):
    """An invite that lets in nobody any more, whole, so that everybody can see whose it was."""

    invite: Invite


class Expire(Body, frozen=True):
    """Ephemeral members whose time is over."""

    members: Annotated[list[MemberId], Meta(min_length=1)]


class Previous(Body, frozen=True):
    """An older data key, sealed under the new one."""

    epoch: Annotated[int, Meta(ge=1, le=VERSION_MAX)]
    sealed: Sealed


class Key(Body, frozen=True):
    """The keys of an epoch, by what each is committed to, and the way back to the data key before."""

    epoch: Annotated[int, Meta(ge=1, le=VERSION_MAX)]
    mesh: Hex32
    data: Hex32
    previous: Previous | None


class Void(Body, frozen=True):
    """An epoch whose key is lost for good."""

    epoch: Annotated[int, Meta(ge=1, le=VERSION_MAX)]


class Rules(Body, frozen=True):
    """The version of the rules that holds from here on."""

    version: Annotated[int, Meta(ge=1, le=VERSION_MAX)]


class Settle(Body, frozen=True):
    """A branch that lost against this one: the last entry that both have, and the hashes of those that are void."""

    fork: Count
    lost: Annotated[list[Hex32], Meta(min_length=1)]


class Checkpoint(Body, frozen=True):
    """What the entries up to here add up to."""

    state: Hex32


Kind = Literal[
    "found",
    "broker",
    "adopt",
    "join",
    "leave",
    "rename",
    "renew",
    "rotate",
    "remove",
    "ban",
    "unban",
    "role",
    "revoke_invite",
    "expire",
    "key",
    "void",
    "rules",
    "settle",
    "checkpoint",
]
BODIES: Final[dict[str, type[Body]]] = {
    "found": Found,
    "broker": NameBroker,
    "adopt": Adopt,
    "join": Join,
    "leave": Leave,
    "rename": Rename,
    "renew": Renew,
    "rotate": Rotate,
    "remove": OfMember,
    "ban": OfMember,
    "unban": OfMember,
    "role": SetRole,
    "revoke_invite": RevokeInvite,
    "expire": Expire,
    "key": Key,
    "void": Void,
    "rules": Rules,
    "settle": Settle,
    "checkpoint": Checkpoint,
}


class Entry(msgspec.Struct, frozen=True):
    """An entry that was read. ``hash`` is over its bytes, ``signed`` is what its author signed."""

    n: int
    prev: str
    kind: str
    by: str
    at: int
    body: Body
    sig: str
    hash: str
    signed: bytes


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    n: Count
    prev: Hex32
    kind: str
    by: MemberId
    at: Time
    body: dict[str, Any]
    sig: Hex64


def entry_hash(data: bytes) -> str:
    """What the next entry follows, and what a head names."""
    return hashlib.blake2b(data, digest_size=HASH_BYTES).hexdigest()


def read_entry(data: bytes) -> Entry:
    """The entry. Raises ``InvalidInput`` with a ``reason`` for bytes that are none."""
    if len(data) > ROSTER_ENTRY_BYTES_MAX:
        raise InvalidInput(f"a roster's entry has at most {ROSTER_ENTRY_BYTES_MAX} bytes", reason="too_large")
    found = parse_strict(data)
    if not isinstance(found, dict) or canonical_json(cast(object, found)) != data:
        raise InvalidInput("a roster's entry is the canonical JSON of an object", reason="not_canonical")
    value = cast("dict[str, Any]", found)
    try:
        read = msgspec.convert(value, _Envelope)
        kind = BODIES.get(read.kind)
        if kind is None:
            raise InvalidInput(f"a roster has no entry of the kind {read.kind[:40]!r}", reason="unknown_kind")
        body = msgspec.convert(read.body, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"not an entry of a roster: {error}", reason="malformed") from error
    signed = canonical_json({name: each for name, each in value.items() if name != "sig"})
    return Entry(read.n, read.prev, read.kind, read.by, read.at, body, read.sig, entry_hash(data), signed)


def write_entry(
    *, n: int, prev: str, kind: Kind, by: str, at: int, body: Body, seed: bytes, fingerprint: str = ""
) -> bytes:
    """The bytes of an entry, signed. ``fingerprint`` is empty for the first one alone. Raises ``InvalidInput``."""
    unsigned = {"n": n, "prev": prev, "kind": kind, "by": by, "at": at, "body": msgspec.to_builtins(body)}
    signature = sealing.sign(seed, signed_bytes(canonical_json(unsigned), fingerprint)).hex()
    data = canonical_json({**unsigned, "sig": signature})
    read_entry(data)
    return data


def signed_bytes(unsigned: bytes, fingerprint: str) -> bytes:
    """What the author of an entry signs."""
    return b"\n".join((_ENTRY, fingerprint.encode(), unsigned))


def is_signed(entry: Entry, key: str, fingerprint: str) -> bool:
    """Whether the owner of this key signed the entry, for this roster."""
    return _verify(key, entry.sig, signed_bytes(entry.signed, fingerprint))


def invite_bytes(invite: Invite, fingerprint: str) -> bytes:
    """What the issuer of an invite signs."""
    said = {name: value for name, value in msgspec.to_builtins(invite).items() if name != "sig"}
    return b"\n".join((_INVITE, fingerprint.encode(), canonical_json(said)))


def is_invite_signed(invite: Invite, key: str, fingerprint: str) -> bool:
    """Whether the owner of this key made the invite."""
    return _verify(key, invite.sig, invite_bytes(invite, fingerprint))


def join_bytes(invite: Invite, key: str, name: str, until: int | None, fingerprint: str) -> bytes:
    """What the invite's own key signs of a joiner, so that who only saw a join can make no other of it."""
    return b"\n".join((_JOIN, fingerprint.encode(), canonical_json([invite.id, key, name, until])))


def is_join_countersigned(join: Join, key: str, fingerprint: str) -> bool:
    """Whether a holder of the invite's secret let this key in."""
    signed = join_bytes(join.invite, key, join.name, join.until, fingerprint)
    return _verify(join.invite.id, join.countersig, signed)


def rotation_bytes(member: str, old: str, new: str, fingerprint: str) -> bytes:
    """What a new key signs when it takes the place of the old one: nobody can take a key that is not theirs."""
    return b"\n".join((_ROTATION, fingerprint.encode(), canonical_json([member, old, new])))


def is_rotation_countersigned(rotate: Rotate, member: str, old: str, fingerprint: str) -> bool:
    """Whether the new key's owner wants it."""
    return _verify(rotate.key, rotate.countersig, rotation_bytes(member, old, rotate.key, fingerprint))


def commitment(key: bytes, purpose: Literal["mesh", "data"], epoch: int, fingerprint: str) -> str:
    """What an entry says of a key that it must not show: it fits this key alone, and does not lead back to it."""
    return sealing.derive_key(key, _COMMITMENT, purpose, epoch, fingerprint).hex()


def _verify(key: str, signature: str, data: bytes) -> bool:
    return sealing.verify(bytes.fromhex(key), bytes.fromhex(signature), data)
