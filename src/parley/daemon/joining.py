"""Making, joining and inviting to a mesh: what happens before and around a membership.

A joiner makes its key, proves to the members that it held the invite's secret, and shows the broker everything but that
secret. A membership is worth nothing until it is on disk, so the caller writes it before it connects.
"""

import secrets
import ssl
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

import httpx
import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from parley.core import sealing, untrusted_json
from parley.core.broker_errors import InviteRefused
from parley.core.clock import iso
from parley.core.daemon_errors import BrokerUnreachable, MeshKeyMissing
from parley.core.errors import InvalidInput, ParleyError
from parley.core.ids import new_uuid
from parley.core.wire_errors import retold
from parley.daemon.memberships import Membership
from parley.wire.answers import ErrorBody
from parley.wire.invites import Invite, Role, decode_invite, encode_invite, invite_secret, join_proof, signed_invite
from parley.wire.mesh_http import JOIN_PATH, MESHES_PATH, CreateMesh, Joined, JoinMesh, MeshCreated, join_bytes

T = TypeVar("T")
TIMEOUT_SECONDS: Final = 20.0
HOUR_MS: Final = 3_600_000
_UNSIGNED: Final = "0" * 128
_NO_SUCH_PATH: Final = (404, 405)
_ANOTHER_KEY_MAY: Final = ("revoked", "replaced")
"""Why a broker refuses a key whose owner may join under a new one."""


class InviteText(NamedTuple):
    """An invite as text: to hand on, and to show to the broker."""

    whole: str
    public: str


async def create_mesh(broker_url: str, slug: str, name: str, creation_token: str | None) -> MeshCreated:
    """A new mesh, and the invite for its owner. Raises what the broker refuses, or ``BrokerUnreachable``."""
    headers = {} if creation_token is None else {"authorization": f"Bearer {creation_token}"}
    return await http_post(broker_url, MESHES_PATH, CreateMesh(slug, name), headers, MeshCreated)


async def join_mesh(
    text: str, name: str, *, known: Sequence[Membership], now_ms: int, ephemeral: bool = False
) -> Membership:
    """The membership that an invite leads to; the same one when this user has joined by it before.

    Who is a member already stays the same one. Who was one comes back: under its key if the broker lets it, and under
    a new one if an admin removed it. A key that was banned is not replaced: that would make little of the ban. Raises
    ``InvalidInput`` for a damaged invite, before it is used, and what the broker refuses.
    """
    invite, secret = decode_invite(text)
    if invite.key_epoch and not secret:
        raise InvalidInput("the invite was cut off; copy the whole text again", field="invite")
    earlier = next((each for each in known if each.mesh_id == invite.mesh_id), None)
    if earlier is not None and earlier.ended is None and earlier.invite == text.strip():
        return earlier
    if earlier is None:
        seed = sealing.new_key(secrets.token_bytes)
        return await _joined(text, name, invite.broker_url, seed, now_ms, ephemeral=ephemeral)
    # No invite leads a member away from its broker; only who is none any more may be told of another one.
    removed = earlier.ended is not None and earlier.ended.removed
    url = invite.broker_url if removed else earlier.broker_url
    try:
        found = await _joined(text, name, url, earlier.seed_bytes, now_ms, ephemeral=ephemeral)
    except InviteRefused as refusal:
        if refusal.details.get("reason") not in _ANOTHER_KEY_MAY:
            raise
        return await _joined(text, name, url, sealing.new_key(secrets.token_bytes), now_ms, ephemeral=ephemeral)
    if earlier.ended is None and earlier.mesh_keys:
        return earlier
    trusted = list(dict.fromkeys([*earlier.trusted, *found.trusted]))
    return replace(found, mesh_keys=earlier.mesh_keys, trusted=trusted)


async def _joined(text: str, name: str, broker_url: str, seed: bytes, now_ms: int, *, ephemeral: bool) -> Membership:
    """What the broker makes of the invite for the owner of this key."""
    invite, secret = decode_invite(text)
    public = sealing.public_key(seed)
    proof = join_proof(secret, invite, public) if secret else ""
    asked = JoinMesh(encode_invite(invite), public.hex(), name, _UNSIGNED, proof, ephemeral)
    asked = replace(asked, signature=sealing.sign(seed, join_bytes(asked)).hex())
    joined = await http_post(broker_url, JOIN_PATH, asked, {}, Joined)
    return Membership(
        mesh_id=joined.mesh_id,
        slug=joined.mesh_slug,
        broker_url=broker_url,
        member_id=joined.member_id,
        display_name=joined.display_name,
        seed=seed.hex(),
        joined_at=iso(now_ms),
        role=joined.role,
        invite=text.strip(),
        trusted=[invite.issuer] if secret else [],
    )


def make_invite(
    membership: Membership, *, role: Role, uses: int, hours: float, now_ms: int
) -> tuple[InviteText, Invite]:
    """An invite that the member signs. Raises ``MeshKeyMissing`` while it has no mesh key to make the secret from."""
    key = membership.newest_key
    if key is None:
        raise MeshKeyMissing("The mesh key has not arrived yet, and an invite is made from it", mesh=membership.slug)
    invite = signed_invite(
        Invite(
            invite_id=f"inv_{new_uuid()}",
            mesh_id=membership.mesh_id,
            mesh_slug=membership.slug,
            broker_url=membership.broker_url,
            role=role,
            issuer=membership.pubkey,
            expires_at=iso(now_ms + round(hours * HOUR_MS)),
            uses_max=uses,
            key_epoch=key.epoch,
        ),
        membership.seed_bytes,
    )
    secret = invite_secret(bytes.fromhex(key.key), invite)
    return InviteText(encode_invite(invite, secret), encode_invite(invite)), invite


async def http_post(broker_url: str, path: str, body: Any, headers: dict[str, str], answer: type[T]) -> T:
    """What a broker answers over HTTP. Raises what it refuses, or ``BrokerUnreachable``."""
    return await _http("POST", broker_url, path, msgspec.json.encode(body), headers, answer)


async def http_get(broker_url: str, path: str, answer: type[T]) -> T:
    """The same, with nothing to tell it."""
    return await _http("GET", broker_url, path, None, {}, answer)


async def _http(
    method: str, broker_url: str, path: str, content: bytes | None, headers: dict[str, str], answer: type[T]
) -> T:
    url = broker_url.rstrip("/").removesuffix("/ws") + path
    for scheme, plain in (("wss://", "https://"), ("ws://", "http://")):
        if url.startswith(scheme):
            url = plain + url.removeprefix(scheme)
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"{broker_url} is not the address of a broker, as ws://HOST:PORT is", field="broker")
    try:
        # What the system trusts, and SSL_CERT_FILE, as for the connection that follows; no proxy of the environment.
        trust = ssl.create_default_context()
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False, verify=trust) as client:
            named = {"content-type": "application/json", **headers}
            reply = await client.request(method, url, content=content, headers=named)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise BrokerUnreachable(f"{broker_url} does not answer: {error}", broker_url=broker_url) from error
    if reply.is_success:
        try:
            return untrusted_json.decode(reply.content, answer)
        except msgspec.DecodeError as error:
            raise BrokerUnreachable(f"{broker_url} is not a broker: {error}", broker_url=broker_url) from error
    raise _refusal(broker_url, reply)


def _refusal(broker_url: str, reply: httpx.Response) -> ParleyError:
    """What the broker refuses. Another server has no such path, and a proxy before a broker other words."""
    try:
        body = untrusted_json.decode(reply.content, ErrorBody)
    except msgspec.DecodeError:
        body = None
    if body is None or reply.status_code in _NO_SUCH_PATH:
        text = f"{broker_url} is not a broker: it answers with {reply.status_code}"
        return BrokerUnreachable(text, broker_url=broker_url)
    details = {} if body.details is UNSET else body.details
    return retold(body.error, code=body.code, status=reply.status_code, details=details)
