"""Peers who mean harm, at a real broker: what they try is refused, and nobody else notices."""

import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
import websockets

from parley.broker.line import FRAME_BYTES_MAX
from parley.core import sealing
from parley.wire.broker import (
    Accepted,
    Answer,
    Challenge,
    DeliveryAck,
    DeliveryAcked,
    FromDaemon,
    Hello,
    Negotiate,
    Ping,
    Pong,
    Push,
    RefusedSend,
    Request,
    hello_bytes,
)
from parley.wire.mesh_methods import METHODS
from tests.broker.process import SECONDS, Peer, Person, Process, broker, connected
from tests.broker.test_server import post
from tests.conformance.broker.circle import make_send

SQL = (
    "'; DROP TABLE member; --",
    "' OR '1'='1",
    '" OR ""="',
    "x'); DELETE FROM delivery_queue; --",
    "alerts' UNION SELECT value FROM meta --",
    "%",
    "_",
    "${jndi}",
    "?1",
    "%s",
    ":name",
)
FUZZ_SEED, FUZZ_FRAMES = 20260204, 400


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with broker(tmp_path_factory.mktemp("hostile") / "broker", "--open-creation") as serving:
        yield serving


class Mesh:
    """Ann, the owner, and some members."""

    def __init__(self, owner: Person, members: dict[str, Person]) -> None:
        self.owner = owner
        self.members = members

    def __getitem__(self, name: str) -> Person:
        return self.members[name]


async def make_mesh(process: Process, slug: str, *names: str) -> Mesh:
    made = await post(process, "/v1/meshes", {"slug": slug, "name": slug})
    assert made.status_code == 201, made.text
    owner = Person(f"{slug}-owner")
    assert (await owner.join(process.http, made.json()["invite"])).status_code == 201
    invite = owner.invites(uses=10)
    members = {name: Person(f"{slug}-{name}") for name in names}
    async with connected(owner, process.url) as peer:
        await peer.request("create_invite", invite=invite)
    for member in members.values():
        assert (await member.join(process.http, invite)).status_code == 201
    return Mesh(owner, members)


@asynccontextmanager
async def greeted_by(process: Process) -> AsyncIterator[tuple[Peer, Challenge]]:
    """A connection that has said nothing yet."""
    async with websockets.connect(f"{process.url}/ws", open_timeout=SECONDS, proxy=None) as socket:
        peer = Peer(socket)
        yield peer, await peer.hear(Challenge)


def hello(person: Person, challenge: Challenge, **changes: str) -> Hello:
    assert person.joined is not None
    values: dict[str, Any] = {
        "mesh_id": person.joined.mesh_id,
        "member_id": person.member_id,
        "pubkey": person.pubkey,
        "signature": "0" * 128,
        "instance_id": "i1",
        **changes,
    }
    said = hello_bytes(nonce=challenge.nonce, broker_id=challenge.broker_id, hello=Hello(**values))
    return Hello(**{**values, "signature": sealing.sign(person.seed, said).hex()})


async def outcome(peer: Peer, method: str, **params: Any) -> Answer:
    """What a method answers, be it a refusal."""
    await peer.say(Request(1, method, params))
    return await peer.hear(Answer)


async def test_an_id_that_somebody_squats_is_still_free_for_everybody_else(process: Process) -> None:
    mesh = await make_mesh(process, "squat", "bob", "mallory")
    async with connected(mesh["mallory"], process.url) as mallory, connected(mesh["bob"], process.url) as bob:
        squatted = await mallory.send(make_send("deploy-42", "dm", mesh["bob"].pubkey, b"mine"))
        async with connected(mesh.owner, process.url) as owner:
            honest = await owner.send(make_send("deploy-42", "dm", mesh["bob"].pubkey, b"theirs"))
        assert isinstance(squatted, Accepted)
        assert isinstance(honest, Accepted)
        assert not honest.duplicate
        pushes = [await bob.take(), await bob.take()]
        senders = {push.message.sender_id for push in pushes}
        assert senders == {mesh["mallory"].member_id, mesh.owner.member_id}
        status = await outcome(mallory, "message_status", client_message_id="deploy-42")
        assert status.result["broker_message_id"] == squatted.broker_message_id


async def test_nobody_takes_a_name_that_could_mean_somebody_else(process: Process) -> None:
    mesh = await make_mesh(process, "names", "bob")
    invite = mesh.owner.invites(uses=20)
    async with connected(mesh.owner, process.url) as owner:
        await owner.request("create_invite", invite=invite)
    key, member_id = mesh["bob"].pubkey, mesh["bob"].member_id
    for name in (
        key,
        key[:16].upper(),
        member_id,
        "#ops",
        "@ops",
        "*",
        " ",
        " bob",
        "bob\u00a0",
        "b\u200bob",
        "\u202ebob",
    ):
        refused = await Person(name).join(process.http, invite)
        assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_INPUT"), name
    for name in ("deadbeef", "O'Brien", "李小龍", "ann @ work", "*star*", "👩\u200d💻"):
        assert (await Person(name).join(process.http, invite)).status_code == 201, name


async def test_a_hello_that_was_overheard_opens_nothing(process: Process) -> None:
    mesh = await make_mesh(process, "replay")
    async with greeted_by(process) as (peer, challenge):
        overheard = hello(mesh.owner, challenge)
        await peer.say(overheard)
        async with greeted_by(process) as (thief, _):
            await thief.say(overheard)
            assert await thief.closed_with() == 4401
    async with greeted_by(process) as (thief, _):
        await thief.say(overheard)
        assert await thief.closed_with() == 4401


async def test_nobody_can_greet_as_somebody_else(process: Process) -> None:
    red, blue = await make_mesh(process, "forge-red", "bob"), await make_mesh(process, "forge-blue", "eve")
    eve, bob = blue["eve"], red["bob"]
    assert bob.joined is not None
    lies: list[dict[str, str]] = [
        {"member_id": bob.member_id},
        {"pubkey": bob.pubkey},
        {"mesh_id": bob.joined.mesh_id},
        {"mesh_id": bob.joined.mesh_id, "member_id": bob.member_id},
        {"mesh_id": bob.joined.mesh_id, "member_id": bob.member_id, "pubkey": bob.pubkey},
        {"pubkey": "00" * 32},
    ]
    for lie in lies:
        async with greeted_by(process) as (peer, challenge):
            await peer.say(hello(eve, challenge, **lie))
            assert await peer.closed_with() == 4401, lie


async def test_before_a_greeting_nothing_is_done(process: Process) -> None:
    mesh = await make_mesh(process, "early", "bob")
    early: list[FromDaemon] = [
        make_send("c1", "dm", mesh["bob"].pubkey),
        Request(1, "members", {}),
        DeliveryAck([DeliveryAcked(1)]),
        Negotiate([]),
    ]
    for frame in early:
        async with greeted_by(process) as (peer, _):
            await peer.say(frame)
            assert await peer.closed_with() == 1002


async def test_what_is_too_large_is_refused_and_hurts_its_sender_alone(process: Process) -> None:
    mesh = await make_mesh(process, "large", "bob")
    async with connected(mesh["bob"], process.url) as bob:
        async with connected(mesh.owner, process.url) as peer:
            body = await peer.send(make_send("c1", "dm", mesh["bob"].pubkey, b"x" * (64 * 1024 + 1)))
            assert isinstance(body, RefusedSend)
            assert (body.problem.code, body.problem.transient) == ("PAYLOAD_TOO_LARGE", False)
            meta = await peer.send(make_send("c2", "dm", mesh["bob"].pubkey, b"x", meta={"a": "x" * 100_000}))
            assert isinstance(meta, RefusedSend)
            await peer.socket.send("[" * FRAME_BYTES_MAX)
            await peer.say(Ping(7))
            assert (await peer.hear(Pong)).id == 7
            await peer.socket.send("x" * (FRAME_BYTES_MAX + 1))
            assert await peer.closed_with() == 1009
        await bob.say(Ping(8))
        assert (await bob.hear(Pong)).id == 8


async def test_ids_of_another_mesh_are_nobodys(process: Process) -> None:
    red, blue = await make_mesh(process, "other-red", "bob"), await make_mesh(process, "other-blue", "eve")
    bob = red["bob"]
    async with connected(red.owner, process.url) as peer:
        assert isinstance(await peer.send(make_send("c1", "dm", bob.pubkey, b"secret")), Accepted)
        members = await peer.request("members")
        invites = await peer.request("invites")
    async with connected(blue.owner, process.url) as eve:
        sent = await eve.send(make_send("c1", "dm", bob.pubkey))
        assert isinstance(sent, RefusedSend)
        assert sent.problem.status == 404
        for method in ("revoke", "ban", "unban", "block", "unblock"):
            answer = await outcome(eve, method, member_id=bob.member_id)
            assert answer.problem is not None, method
        assert (await outcome(eve, "set_role", member_id=bob.member_id, role="member")).problem is not None
        assert (await outcome(eve, "grant", member_id=bob.member_id, capabilities=[])).problem is not None
        revoked = await outcome(eve, "revoke_invite", invite_id=invites["invites"][0]["invite_id"])
        assert revoked.problem is not None or revoked.result["changed"] is False
        given = await outcome(eve, "give_key", member_id=bob.member_id, key_epoch=1, sealed="AAAA")
        assert given.problem is not None
        assert (await outcome(eve, "message_status", client_message_id="c1")).problem is not None
        await eve.say(DeliveryAck([DeliveryAcked(number) for number in range(1, 200)]))
        told = json.dumps((await outcome(eve, "members")).result)
        assert bob.member_id not in told
    async with connected(bob, process.url) as peer:
        push = await peer.take()
        assert push.message.client_message_id == "c1"
    async with connected(red.owner, process.url) as peer:
        assert [_still(each) for each in (await peer.request("members"))["members"]] == [
            _still(each) for each in members["members"]
        ]
        assert await peer.request("invites") == invites


async def test_a_member_cannot_raise_itself_or_throw_others_out(process: Process) -> None:
    mesh = await make_mesh(process, "climb", "bob", "mallory")
    mallory = mesh["mallory"]
    async with connected(mallory, process.url) as peer:
        attempts: list[tuple[str, dict[str, Any]]] = [
            ("set_role", {"member_id": mallory.member_id, "role": "owner"}),
            ("revoke", {"member_id": mesh["bob"].member_id}),
            ("ban", {"member_id": mesh.owner.member_id}),
            ("create_invite", {"invite": mallory.invites("owner")}),
            ("audit", {}),
            ("invites", {}),
        ]
        for method, params in attempts:
            answer = await outcome(peer, method, **params)
            assert answer.problem is not None, method
            assert answer.problem.code == "NOT_ALLOWED", method
    raised = await Person("crony").join(process.http, mallory.invites("owner"))
    assert raised.status_code == 403


async def test_who_was_removed_is_out_with_all_that_it_left_behind(process: Process) -> None:
    mesh = await make_mesh(process, "removed", "bob", "mallory")
    mallory = mesh["mallory"]
    async with connected(mesh.owner, process.url) as owner, connected(mallory, process.url) as peer:
        await owner.request("set_role", member_id=mallory.member_id, role="admin")
        left_behind = mallory.invites(uses=5)
        await peer.request("create_invite", invite=left_behind)
        await owner.request("revoke", member_id=mallory.member_id)
        assert await peer.closed_with() == 4002
        refused = await owner.send(make_send("c1", "dm", mallory.pubkey))
        assert isinstance(refused, RefusedSend)
    async with greeted_by(process) as (peer, challenge):
        await peer.say(hello(mallory, challenge))
        assert await peer.closed_with() == 4002
    assert (await Person("friend").join(process.http, left_behind)).status_code == 403
    assert (await mallory.join(process.http, mesh.owner.invites(uses=10))).status_code == 403


@pytest.mark.parametrize("text", SQL)
async def test_sql_is_text_like_any_other(process: Process, text: str) -> None:
    mesh = await make_mesh(process, f"sql-{SQL.index(text)}", "bob", "cid")
    bob, cid = mesh["bob"], mesh["cid"]
    async with connected(mesh.owner, process.url) as owner:
        before = _rows(process)
        async with connected(bob, process.url) as peer:
            for each in (owner, peer):
                await each.request("subscribe", topic=text)
            await peer.request("set_presence", status="idle", summary=text)
            joined = await outcome(peer, "join_group", group=text)
            assert joined.problem is None
            client_id = f"id{text.encode().hex()}"
            sent = make_send(client_id, "topic", text, text.encode(), meta={text: text}, reply_to=None)
            assert isinstance(await owner.send(sent), Accepted)
            assert (await peer.take()).message.ref == text
            grouped = await owner.send(make_send(f"{client_id}-g", "queue", f"@{text}"))
            assert isinstance(grouped, Accepted)
            assert (await peer.take()).message.ref == f"@{text}"
            for method in METHODS:
                params = dict.fromkeys(METHODS[method].params.__struct_fields__, text)
                if params:
                    await outcome(peer, method, **params)
        async with connected(cid, process.url) as other:
            await other.say(Ping(1))
            await other.hear(Pong)
            assert not [frame for frame in other.heard if isinstance(frame, Push)]
        after = _rows(process)
        assert all(after[table] >= count for table, count in before.items())


async def test_noise_ends_no_connection_but_its_own(process: Process) -> None:
    """Frames of every kind with one part of them changed, cut short or replaced."""
    mesh, rng = await make_mesh(process, "noise", "bob"), random.Random(FUZZ_SEED)
    good = [
        msgspec.json.encode(frame)
        for frame in (
            make_send("c1", "dm", mesh["bob"].pubkey),
            Request(1, "members", {}),
            DeliveryAck([DeliveryAcked(1)]),
            Ping(1),
            Negotiate(["x"]),
        )
    ]
    async with connected(mesh["bob"], process.url) as bob:
        for _ in range(FUZZ_FRAMES // 20):
            async with connected(mesh.owner, process.url) as peer:
                with suppress(websockets.ConnectionClosed):
                    for _ in range(20):
                        await peer.socket.send(_spoilt(rng.choice(good), rng))
        await bob.say(Ping(9))
        assert (await bob.hear(Pong)).id == 9
    assert process.popen.poll() is None


async def test_who_floods_and_never_reads_keeps_nobody_waiting(process: Process) -> None:
    mesh = await make_mesh(process, "flood", "bob", "mallory")
    async with connected(mesh["mallory"], process.url) as flood, connected(mesh.owner, process.url) as owner:
        with suppress(websockets.ConnectionClosed):
            for number in range(5_000):
                await flood.say(make_send(f"f{number}", "dm", mesh["mallory"].pubkey))
        async with connected(mesh["bob"], process.url) as bob:
            assert isinstance(await owner.send(make_send("c1", "dm", mesh["bob"].pubkey)), Accepted)
            assert (await bob.take()).message.client_message_id == "c1"


def _spoilt(frame: bytes, rng: random.Random) -> bytes | str:
    at = rng.randrange(len(frame))
    fate = rng.random()
    if fate < 0.3:
        return frame[:at]
    if fate < 0.6:
        return frame[:at] + rng.randbytes(3) + frame[at:]
    fields = json.loads(frame)
    fields[rng.choice(list(fields))] = rng.choice([None, -1, 2**70, "", "\0", [[]] * 50, {"": {}}, True, 1.5])
    return json.dumps(fields)


def _still(member: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in member.items() if name != "seen_at"}


def _rows(process: Process) -> dict[str, int]:
    """How many rows each table of the broker has."""
    path = Path(process.folder) / "broker.db"
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = ("member", "member_key", "mesh", "invite", "message", "message_history", "client_message_dedupe")
        return {each: int(str(connection.execute(f"SELECT count(*) FROM {each}").fetchall()[0][0])) for each in tables}
    finally:
        connection.close()
