"""What is asked of a broker over HTTP, before there is a member who could connect: to make a mesh, and to join one.

``POST /v1/meshes`` makes a mesh and answers with an invite for its owner. It needs the broker's creation token as
``Authorization: Bearer``, unless the broker lets everybody create. ``POST /v1/join`` makes the bearer of an invite a
member; the joiner signs what it asks, so that nobody can put another's key into a mesh. Both may be repeated.

``POST /v1/rosters`` takes a mesh whose roster decides who is a member. It needs the same token, and may be repeated.

``GET /v1/meshes`` and ``PATCH /v1/meshes`` are the operator's: they need the token whoever may create.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from parley.core import limits
from parley.core.roster.heads import Head
from parley.wire.broker import Key, Signature
from parley.wire.invites import Role
from parley.wire.rosters import Entries

MESHES_PATH: Final = "/v1/meshes"
ROSTERS_PATH: Final = "/v1/rosters"
JOIN_PATH: Final = "/v1/join"
HEALTH_PATH: Final = "/v1/health"
READY_PATH: Final = "/v1/ready"
_JOIN: Final = "parley join 1"
_END = r"(?![\s\S])"
SLUG_PATTERN: Final = rf"^[a-z0-9][a-z0-9-]*{_END}"
Slug = Annotated[str, Meta(min_length=1, max_length=64, pattern=SLUG_PATTERN)]
_UNSEEN = r"\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
_AN_ADDRESS = rf"[#@]|\*{_END}|mem_|[0-9A-Fa-f]{{16,}}{_END}"
NAME_PATTERN: Final = rf"^(?!\s|{_AN_ADDRESS})[^{_UNSEEN}]+(?<!\s){_END}"
NAME_WORDS: Final = (
    "a name that can be seen, that neither begins nor ends with a blank, and that cannot be taken for a key, a"
    " member's id, a topic, a group or everybody"
)
DisplayName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.SENDER_CHARS_MAX,
        pattern=NAME_PATTERN,
        extra_json_schema={"description": NAME_WORDS},
    ),
]

MembersMax = Annotated[int, Meta(ge=1, le=limits.VERSION_MAX)]
BytesMax = Annotated[int, Meta(ge=1024, le=limits.VERSION_MAX)]


class BrokerHealth(msgspec.Struct, frozen=True):
    """``GET /v1/health``"""

    status: Literal["ok", "degraded"]
    version: str
    broker_id: str
    instance_id: str
    problems: list[str]
    key: str = ""
    """The broker's public key, as a roster names it."""


class BrokerReady(msgspec.Struct, frozen=True, omit_defaults=True):
    """``GET /v1/ready``"""

    status: str
    problems: list[str] = []


class CreateMesh(msgspec.Struct, frozen=True):
    """``POST /v1/meshes``"""

    slug: Slug
    name: DisplayName


class MeshCreated(msgspec.Struct, frozen=True):
    """201: the mesh, and an invite by which its owner joins it once."""

    mesh_id: str
    slug: str
    invite: str


class FoundRoster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/rosters``: a roster from its first entry on, which names this broker by its key."""

    slug: Slug
    entries: Entries
    name: DisplayName | None = None
    """What the mesh is for; the slug, if nothing is said."""


class RosterFounded(msgspec.Struct, frozen=True):
    """201: the broker carries the roster; 200 if it did before."""

    mesh_id: str
    slug: str
    member_id: str
    """The founder's."""
    fingerprint: str
    head: Head


class SetLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``PATCH /v1/meshes``: what a mesh may hold from now on. What is left out stays as it is."""

    slug: Slug
    members_max: MembersMax | None = None
    bytes_max: BytesMax | None = None


class MeshLimits(msgspec.Struct, frozen=True):
    """A mesh's limits, and how far they are used."""

    mesh_id: str
    slug: str
    name: str
    members: int
    members_max: int
    stored_bytes: int
    bytes_max: int
    connection_policy: str


class Meshes(msgspec.Struct, frozen=True):
    """``GET /v1/meshes``"""

    meshes: list[MeshLimits]


class JoinMesh(msgspec.Struct, frozen=True):
    """``POST /v1/join``. ``invite`` comes without its secret; ``signature`` is the joiner's over ``join_bytes``."""

    invite: Annotated[str, Meta(max_length=limits.INVITE_CHARS_MAX)]
    pubkey: Key
    display_name: DisplayName
    signature: Signature
    join_proof: Annotated[str, Meta(max_length=64)] = ""
    ephemeral: bool = False
    """Whether the member's keys end with its daemon. Not signed: an older broker does not know of it."""


class Joined(msgspec.Struct, frozen=True):
    """201 for a new member, 200 for one that was one already."""

    mesh_id: str
    mesh_slug: str
    member_id: str
    display_name: str
    role: Role
    key_epoch: int


def join_bytes(asked: JoinMesh) -> bytes:
    """What a joiner signs: the invite, its own key, and the name by which it wants to be known."""
    return f"{_JOIN}\n{asked.invite}\n{asked.pubkey}\n{asked.display_name}\n{asked.join_proof}".encode()
