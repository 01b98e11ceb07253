"""Founding a mesh with a roster, and joining one: what happens before there is a membership.

A founder signs the first entries and hands them to a broker. A joiner connects with its invite, reads the roster from
its first entry on, makes sure that it is the one that the invite is of and that it goes at least as far, and appends
its own ``join``. A membership is worth nothing until it is on disk, so the caller writes it before it connects.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from parley.core import sealing
from parley.core.broker_errors import InviteRefused, RosterRefused
from parley.core.clock import iso
from parley.core.daemon_errors import BrokerUnreachable, NameTaken
from parley.core.errors import InvalidInput, ParleyError
from parley.core.ids import new_uuid
from parley.core.limits import BROKER_FRAME_BYTES_MAX
from parley.core.roster import Name, Refusal, State, apply_all, entries, member_id
from parley.core.roster.authoring import found_entry, next_entry
from parley.core.roster.epoch_keys import EpochKeys, key_body, new_keys
from parley.core.roster.heads import is_by_broker
from parley.core.wire_errors import retold
from parley.daemon.joining import http_get, http_post
from parley.daemon.memberships import Membership
from parley.daemon.mesh import socket_url
from parley.daemon.rosters.acts import join as join_act
from parley.daemon.rosters.copy import RosterCopy
from parley.daemon.rosters.errands import Ask, Errand, Me, Need, Pause, append, catch_up, drive
from parley.wire.broker import (
    NEWEST_PROTOCOL,
    Answer,
    Challenge,
    ErrorFrame,
    FromBroker,
    FromDaemon,
    Ping,
    Pong,
    Request,
    RosterWelcome,
    decode_from_broker,
    encode_frame,
)
from parley.wire.mesh_http import HEALTH_PATH, ROSTERS_PATH, BrokerHealth, FoundRoster, RosterFounded
from parley.wire.roster_invites import RosterInvite, decode_roster_invite
from parley.wire.rosters import RosterHello, roster_hello_bytes

T = TypeVar("T")
Frame = TypeVar("Frame", bound=FromBroker)
SECONDS: Final = 20.0
"""How long each step of a conversation with a broker may take."""
EPHEMERAL_MS: Final = 23 * 3_600_000
_NO_CONNECTION: Final = (OSError, TimeoutError, InvalidHandshake, InvalidURI, EOFError, ConnectionClosed)
_NAME_TAKEN: Final = ("name_taken", "name_reserved")
_OF_INVITE: Final = ("invite", "bad_invite", "banned", "key_taken")


async def found_mesh(
    broker_url: str, slug: str, title: str, name: Name, creation_token: str | None, now_ms: int
) -> Membership:
    """A mesh that a broker carries from now on, and its founder's membership. Raises what the broker refuses."""
    check_name(name)
    health = await http_get(broker_url, HEALTH_PATH, BrokerHealth)
    if not health.key:
        raise BrokerUnreachable(f"{broker_url} is too old to carry a mesh with a roster", broker_url=broker_url)
    seed = sealing.new_key(secrets.token_bytes)
    log, state, keys = _first_entries(name, seed, health.key, now_ms)
    headers = {} if creation_token is None else {"authorization": f"Bearer {creation_token}"}
    asked = FoundRoster(slug, [each.decode() for each in log], title)
    founded = await http_post(broker_url, ROSTERS_PATH, asked, headers, RosterFounded)
    head = founded.head
    if (head.n, head.hash) != (state.n, state.head) or not is_by_broker(head, health.key, state.fingerprint):
        raise BrokerUnreachable(f"{broker_url} did not sign the roster that it was given", broker_url=broker_url)
    made = Membership(
        mesh_id=founded.mesh_id,
        slug=founded.slug,
        broker_url=broker_url,
        member_id=state.founder,
        display_name=name,
        seed=seed.hex(),
        joined_at=iso(now_ms),
        role="owner",
        fingerprint=state.fingerprint,
        floor=(state.n, state.head),
    )
    return made.holding([keys])


async def join_roster(
    text: str, name: Name, *, known: Sequence[Membership], now_ms: Callable[[], int], ephemeral: bool = False
) -> Membership:
    """The membership that an invite leads to; the same one when this user is a member already.

    Who was removed comes back under its key, unless that was banned. Raises ``InvalidInput`` for a damaged invite,
    ``InviteRefused``, ``NameTaken``, and what the broker refuses.
    """
    check_name(name)
    told, secret = decode_roster_invite(text)
    earlier = next((each for each in known if each.fingerprint == told.fingerprint), None)
    if earlier is not None and earlier.ended is None and earlier.invite == told.invite.id:
        return earlier
    seed = sealing.new_key(secrets.token_bytes) if earlier is None else earlier.seed_bytes
    copy = RosterCopy(told.fingerprint, (told.invite.n, told.invite.head))
    try:
        async with connect(
            socket_url(told.broker_url),
            open_timeout=SECONDS,
            ping_interval=None,
            compression=None,
            max_size=BROKER_FRAME_BYTES_MAX,
            proxy=None,
        ) as socket:
            joiner = _Joiner(socket, told, seed, secret)
            await joiner.greet()
            member = await _joined(joiner, copy, told, secret, name, now_ms, ephemeral=ephemeral)
    except _NO_CONNECTION as error:
        raise BrokerUnreachable(f"{told.broker_url} does not answer: {error}", broker_url=told.broker_url) from error
    assert copy.state is not None
    own = copy.state.members[member]
    if earlier is not None and earlier.ended is None and earlier.member_id == own.id:
        return earlier
    made = Membership(
        mesh_id=told.mesh_id,
        slug=told.mesh_slug,
        broker_url=told.broker_url,
        member_id=own.id,
        display_name=own.name,
        seed=seed.hex(),
        joined_at=iso(now_ms()),
        role=own.role,
        invite=told.invite.id,
        fingerprint=told.fingerprint,
        floor=(copy.state.n, copy.state.head),
    )
    return made if earlier is None else replace(made, mesh_keys=earlier.mesh_keys)


def check_name(name: str) -> None:
    """Raises ``InvalidInput`` for what nobody can be called in a roster."""
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError:
        raise InvalidInput(
            "a name is 1 to 32 small letters, digits, '.', '_' and '-', and begins with a letter or a digit",
            field="name",
        ) from None


def _first_entries(name: Name, seed: bytes, broker: str, now_ms: int) -> tuple[list[bytes], State, EpochKeys]:
    log = [found_entry(name, seed=seed, at=now_ms, random=secrets.token_bytes)]
    state = _applied(None, log)
    named = entries.NameBroker(broker)
    log.append(next_entry(state, "broker", named, by=state.founder, seed=seed, at=now_ms))
    state = _applied(None, log)
    keys = new_keys(state, secrets.token_bytes)
    body = key_body(state, keys, None, secrets.token_bytes)
    log.append(next_entry(state, "key", body, by=state.founder, seed=seed, at=now_ms))
    return log, _applied(None, log), keys


def _applied(state: State | None, log: Sequence[bytes]) -> State:
    after = apply_all(state, log)
    if isinstance(after, Refusal):
        raise InvalidInput(f"a roster cannot begin so: {after.message}", field="name")
    return after


async def _joined(
    joiner: "_Joiner",
    copy: RosterCopy,
    told: RosterInvite,
    secret: bytes,
    name: Name,
    now_ms: Callable[[], int],
    *,
    ephemeral: bool,
) -> str:
    """The member's id; that which it has, if it is one already."""
    await joiner.run(catch_up(copy))
    if not copy.is_whole or copy.state is None:
        raise InviteRefused("The broker does not show the roster that the invite is of", reason="roster_withheld")
    known = copy.state.with_key(joiner.pubkey)
    if known is not None and known.is_active:
        return known.id
    me = Me("", joiner.seed, [joiner.seed], now_ms, secrets.token_bytes, list)
    act = join_act(told.invite, secret, name=name, until_in_ms=EPHEMERAL_MS if ephemeral else None)
    try:
        steps = await joiner.run(append(copy, act, me))
    except RosterRefused as refusal:
        raise _told(refusal, name) from refusal
    return member_id(steps[0].entry)


def _told(refusal: RosterRefused, name: Name) -> ParleyError:
    reason = str(refusal.details.get("reason"))
    if reason in _NAME_TAKEN:
        return NameTaken(f"Nobody can join as {name}: {refusal.message}", name=name, reason=reason)
    if reason.startswith(_OF_INVITE):
        return InviteRefused(f"Nobody can join by this invite: {refusal.message}", reason=reason)
    return refusal


class _Joiner:
    """The connection of somebody who bears an invite and is no member yet."""

    def __init__(self, socket: ClientConnection, told: RosterInvite, seed: bytes, secret: bytes) -> None:
        self.seed = seed
        self.pubkey = sealing.public_key(seed).hex()
        self._socket = socket
        self._told = told
        self._secret = secret
        self._asked = 0

    async def greet(self) -> None:
        """Says who comes, by which invite. Raises what the broker refuses."""
        challenge = await self._hear(Challenge)
        if challenge.newest < NEWEST_PROTOCOL:
            url = self._told.broker_url
            raise BrokerUnreachable(f"{url} is too old to carry a mesh with a roster", broker_url=url)
        hello = RosterHello(
            mesh_id=self._told.mesh_id,
            fingerprint=self._told.fingerprint,
            pubkey=self.pubkey,
            signature="",
            instance_id=new_uuid(),
            invite=self._told.invite,
        )
        said = roster_hello_bytes(nonce=challenge.nonce, broker_id=challenge.broker_id, hello=hello)
        by_invite = sealing.sign(self._secret, said).hex()
        await self._say(replace(hello, signature=sealing.sign(self.seed, said).hex(), invite_signature=by_invite))
        await self._hear(RosterWelcome)

    async def run(self, errand: Errand[T]) -> T:
        """Drives an errand to its end; what it has to keep is kept by whoever gets the membership."""
        return await drive(errand, self._fill)

    async def _fill(self, need: Need) -> Any:
        if isinstance(need, Ask):
            return await self._ask(need)
        if isinstance(need, Pause):
            await asyncio.sleep(need.ms / 1000)
        return None

    async def _ask(self, need: Ask) -> Any:
        self._asked += 1
        await self._say(Request(self._asked, need.method, need.params))
        while (answer := await self._hear(Answer)).id != self._asked:
            pass
        problem = answer.problem
        if problem is not None:
            raise retold(problem.error, code=problem.code, status=problem.status, details=problem.details)
        return answer.result

    async def _say(self, frame: FromDaemon) -> None:
        await self._socket.send(encode_frame(frame).decode())

    async def _hear(self, kind: type[Frame]) -> Frame:
        """The next frame of this kind. Raises what the broker refuses, and ``TimeoutError``."""
        async with asyncio.timeout(SECONDS):
            async for data in self._socket:
                frame = decode_from_broker(data)
                if isinstance(frame, Ping):
                    await self._say(Pong(frame.id))
                if isinstance(frame, ErrorFrame):
                    said = frame.problem
                    raise retold(said.error, code=said.code, status=said.status, details=said.details)
                if isinstance(frame, kind):
                    return frame
        raise EOFError("the connection was closed")
