"""A member who sends what no honest daemon would, to a real daemon through a real broker: kept, told, survived."""

import asyncio
import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import apsw
import httpx
import msgspec
import pytest
import websockets

from parley.client.daemon import parse_events
from parley.core import sealing
from parley.core.sealing import Context
from parley.daemon.joining import create_mesh
from parley.daemon.memberships import Membership, Memberships, MeshKey
from parley.wire.broker import (
    Accepted,
    Challenge,
    Features,
    Hello,
    Negotiate,
    Send,
    Welcome,
    hello_bytes,
    wire_fingerprint,
)
from parley.wire.daemon_home import DaemonHome
from tests.broker.process import REQUIRED, SECONDS, Peer, Process, broker
from tests.campaign.mesh.proxy import FaultProxy
from tests.campaign.mesh.town import Town
from tests.daemon.served_daemon import MakeServed, ServedDaemon
from tests.daemon.world import NOW
from tests.mesh_fixtures import FOLDER
from tests.workspace.databases import run_script

TEXT = "x\0y'; DROP TABLE inbox; --\u202e\x1b[31m\ud7ff"


@asynccontextmanager
async def town() -> AsyncIterator[Town]:
    """``d0`` is honest and runs; ``d1`` and ``d2`` are members, and no process."""
    with tempfile.TemporaryDirectory(prefix="pm-") as name:
        place = Path(name)
        async with (
            FaultProxy(1) as proxy,
            Town(place, str(place / "broker.db"), proxy, daemons=3, meshes=1, seed=1) as made,
        ):
            await made.start("broker")
            await made.start("d0")
            yield made


@asynccontextmanager
async def speaking_as(url: str, member: Membership) -> AsyncIterator[Peer]:
    """The connection of a member whose program is not ours."""
    async with websockets.connect(f"{url}/ws", open_timeout=SECONDS, proxy=None) as socket:
        peer = Peer(socket)
        challenge = await peer.hear(Challenge)
        bare = Hello(member.mesh_id, member.member_id, member.pubkey, "0" * 128, "i1")
        said = hello_bytes(nonce=challenge.nonce, broker_id=challenge.broker_id, hello=bare)
        await peer.say(msgspec.structs.replace(bare, signature=sealing.sign(member.seed_bytes, said).hex()))
        await peer.hear(Welcome)
        await peer.say(Negotiate(REQUIRED))
        await peer.hear(Features)
        yield peer


def frame(client_id: str, to: Membership, body: bytes, **more: Any) -> Send:
    bare = Send(client_id, "dm", to.pubkey, base64.b64encode(body).decode(), "0" * 64, **more)
    return msgspec.structs.replace(bare, fingerprint=wire_fingerprint(bare).hex())


def sealed(text: bytes, sender: Membership, to: Membership, **changes: str) -> bytes:
    context = Context(sender.mesh_id, "dm", to.pubkey, sender.pubkey)._replace(**changes)
    return sealing.seal_direct(text, context, sender_seed=sender.seed_bytes, recipient=bytes.fromhex(to.pubkey))


def inside(text: str) -> bytes:
    return msgspec.json.encode({"body": text, "meta": {}})


def nested(depth: int) -> bytes:
    """What is sealed in a message whose metadata has so many levels."""
    return b'{"body": "hello", "meta": ' + b'{"a": ' * depth + b"1" + b"}" * depth + b"}"


Bad = Callable[[Membership, Membership, Membership], bytes]
BAD: dict[str, Bad] = {
    "nothing": lambda mallory, honest, other: b"",
    "noise": lambda mallory, honest, other: b"\xff" * 500,
    "text that was never sealed": lambda mallory, honest, other: inside("hello"),
    "sealed, and not our form": lambda mallory, honest, other: sealed(b"[1, 2", mallory, honest),
    "sealed, and no text": lambda mallory, honest, other: sealed(b'{"body": 1}', mallory, honest),
    "carried over from another mesh": lambda mallory, honest, other: sealed(
        inside("hello"), mallory, honest, mesh_id="mesh_other"
    ),
    "carried over from another conversation": lambda mallory, honest, other: sealed(
        inside("hello"), mallory, honest, reply_to="bm_1"
    ),
    "nested as deep as a decoder goes": lambda mallory, honest, other: sealed(nested(950), mallory, honest),
    "nested deeper than a decoder goes": lambda mallory, honest, other: sealed(nested(5_000), mallory, honest),
    "nested where nobody looks": lambda mallory, honest, other: sealed(
        b'{"body": "hello", "more": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", mallory, honest
    ),
    "a number that no column holds": lambda mallory, honest, other: sealed(
        b'{"body": "hello", "meta": {"a": ' + b"9" * 400 + b"}}", mallory, honest
    ),
    "half of a character": lambda mallory, honest, other: sealed(b'{"body": "\\ud800"}', mallory, honest),
    "more metadata than anybody takes": lambda mallory, honest, other: sealed(
        msgspec.json.encode({"body": "hello", "meta": {"a": "x" * 40_000}}), mallory, honest
    ),
    "another member's words": lambda mallory, honest, other: sealed(inside("hello"), other, honest),
}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with broker(tmp_path_factory.mktemp("shared") / "broker", "--open-creation") as serving:
        yield serving


async def joined(make_served: MakeServed, name: str, invite: str) -> ServedDaemon:
    served = await make_served(name=name, empty=True)
    answer = await served.unix.post("/v1/mesh/join", json={"invite": invite, "name": name})
    assert answer.status_code == 200, answer.text
    await served.until(lambda: bool(served.daemon.mesh(None).membership.mesh_keys))
    return served


async def met(process: Process, name: str, make_served: MakeServed) -> tuple[ServedDaemon, ServedDaemon, Membership]:
    """Two honest daemons, and somebody whose daemon was stopped so that another program can speak in its place."""
    alice = await joined(make_served, "alice", (await create_mesh(process.url, name, name, None)).invite)
    invite = (await alice.unix.post("/v1/mesh/invite", json={"uses": 2})).json()["invite"]
    bob = await joined(make_served, "bob", invite)
    mallory = await joined(make_served, "mallory", invite)
    membership = mallory.daemon.mesh(None).membership
    await mallory.close()
    return alice, bob, membership


async def listed(served: ServedDaemon, path: str = "/v1/inbox?limit=1000") -> dict[str, dict[str, Any]]:
    answer = await served.unix.get(path)
    assert answer.status_code == 200, answer.text
    return {each["client_message_id"]: each for each in answer.json()["items"]}


async def gets(served: ServedDaemon, *client_ids: str) -> dict[str, dict[str, Any]]:
    """What is in the inbox, as soon as these are there too."""
    items: dict[str, dict[str, Any]] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            while not set(client_ids) <= set(items := await listed(served)):  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0.05)
    assert set(client_ids) <= set(items)
    return items


async def streamed(served: ServedDaemon, expected: int) -> list[str]:
    """The kinds of all events of messages, as ``/v1/events`` tells them. The daemon follows nothing any more then."""
    reading = asyncio.create_task(served.unix.get("/v1/events", params={"after": "0"}))
    await served.until(lambda: len(served.daemon.feed) > 1 or reading.done())
    served.daemon.feed.close()
    answer = await reading
    assert answer.status_code == 200
    kinds = [each.kind for each in parse_events(iter(answer.text.split("\n")))]
    found = [kind for kind in kinds if kind in ("message", "decrypt_failed")]
    assert len(found) == expected
    return found


async def test_m1_messages_nested_too_deep_are_kept_and_hold_up_nothing(
    process: Process, make_served: MakeServed
) -> None:
    alice, bob, mallory = await met(process, "too-deep", make_served)
    honest = bob.daemon.mesh(None).membership
    depths = [900, 950, 985, *[5_000] * 64]
    async with speaking_as(process.url, mallory) as peer:
        for number, depth in enumerate(depths):
            answer = await peer.send(frame(f"deep-{number}", honest, sealed(nested(depth), mallory, honest)))
            assert isinstance(answer, Accepted)
    assert (await alice.send(to="bob", message="after it", client_message_id="after")).status_code == 202
    items = await gets(bob, "after", *(f"deep-{number}" for number in range(len(depths))))
    assert items["after"]["body"] == "after it"
    assert {(each["body"], each["undecryptable"]) for name, each in items.items() if name != "after"} == {(None, True)}
    async with speaking_as(process.url, mallory) as peer:
        ids = [f"deep-{number}" for number in range(len(depths))]
        states: set[str] = set()
        async with asyncio.timeout(SECONDS):
            while states != {"delivered"}:  # bob's word may still be on its way to the broker
                status = [await peer.request("message_status", client_message_id=each) for each in ids[:3] + ids[-3:]]
                states = {found["state"] for each in status for found in each["deliveries"]}
    await bob.close()
    again = await make_served(name="bob", empty=True)
    assert (await alice.send(to="bob", message="still", client_message_id="later")).status_code == 202
    assert (await gets(again, "later"))["later"]["body"] == "still"
    assert set(await listed(again, "/v1/inbox/search?q=still")) == {"later"}
    assert (await streamed(again, len(depths) + 2)).count("message") == 2


async def undecryptable(served: ServedDaemon, *, until: int) -> int:
    """How many messages the daemon says it cannot read: as soon as it is this number, or when it stays another."""
    number = -1
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            while number != until:
                await asyncio.sleep(0.02)
                number = (await served.unix.get("/v1/health")).json()["undecryptable"]
    return number


class Giver:
    """The founder of a mesh, who puts somebody out, makes the next key and keeps it to itself for now."""

    def __init__(self, founder: Membership, peer: Peer) -> None:
        self.key = MeshKey(2, "5e" * 32)
        self._founder = founder
        self._peer = peer

    async def tell_everybody(self, count: int) -> None:
        """Sends so many messages that only the new key opens."""
        context = Context(self._founder.mesh_id, "queue", "*", self._founder.pubkey)
        for number in range(count):
            body = sealing.seal_shared(inside(f"{number}"), context, mesh_key=bytes.fromhex(self.key.key))
            bare = Send(f"all-{number}", "queue", "*", base64.b64encode(body).decode(), "0" * 64, key_epoch=2)
            said = msgspec.structs.replace(bare, fingerprint=wire_fingerprint(bare).hex())
            assert isinstance(await self._peer.send(said), Accepted)

    async def give_key(self, to: Membership) -> None:
        given = sealing.seal_mesh_key(
            bytes.fromhex(self.key.key),
            mesh_id=to.mesh_id,
            key_epoch=2,
            sender_seed=self._founder.seed_bytes,
            recipient=bytes.fromhex(to.pubkey),
        )
        sealed_key = base64.b64encode(given).decode()
        await self._peer.request("give_key", member_id=to.member_id, key_epoch=2, sealed=sealed_key)


@asynccontextmanager
async def founder(process: Process, name: str, make_served: MakeServed) -> AsyncIterator[tuple[Giver, ServedDaemon]]:
    """A founder who speaks for itself, and Bob's daemon, which trusts it."""
    alice, bob, mallory = await met(process, name, make_served)
    membership = alice.daemon.mesh(None).membership
    await alice.close()
    async with speaking_as(process.url, membership) as peer:
        await peer.request("revoke", member_id=mallory.member_id)
        yield Giver(membership, peer), bob


async def test_m6_everything_opens_when_the_key_comes(process: Process, make_served: MakeServed) -> None:
    count = 1_100
    async with founder(process, "key-for-many", make_served) as (giver, bob):
        await giver.tell_everybody(count)
        assert await undecryptable(bob, until=count) == count
        await giver.give_key(bob.daemon.mesh(None).membership)
        assert await undecryptable(bob, until=0) == 0
    items = (await bob.unix.get("/v1/inbox", params={"limit": 1_000})).json()["items"]
    rest = (await bob.unix.get("/v1/inbox", params={"limit": 1_000, "before": items[-1]["seq"]})).json()["items"]
    assert {each["body"] for each in (*items, *rest)} == {str(number) for number in range(count)}


async def test_m6_a_daemon_that_ended_before_it_had_opened_all_goes_on(
    process: Process, make_served: MakeServed
) -> None:
    async with founder(process, "key-and-gone", make_served) as (giver, bob):
        await giver.tell_everybody(70)
        assert await undecryptable(bob, until=70) == 70
    await bob.close()
    memberships = Memberships(bob.home.memberships)
    memberships.load()
    (known,) = memberships.all()
    memberships.put(msgspec.structs.replace(known, mesh_keys=[*known.mesh_keys, giver.key]))
    again = await make_served(name="bob", empty=True)
    assert await undecryptable(again, until=0) == 0


@pytest.mark.parametrize("method", ["ban", "revoke"])
async def test_m1_who_is_put_out_is_not_heard_any_more(process: Process, make_served: MakeServed, method: str) -> None:
    alice, bob, mallory = await met(process, f"put-out-by-{method}", make_served)
    honest = bob.daemon.mesh(None).membership
    await bob.close()
    async with speaking_as(process.url, mallory) as peer:
        for number in range(70):
            assert isinstance(
                await peer.send(frame(f"{number}", honest, sealed(nested(5_000), mallory, honest))), Accepted
            )
        told = {"method": method, "params": {"member_id": mallory.member_id}}
        assert (await alice.unix.post("/v1/mesh/call", json=told)).status_code == 200
    assert (await alice.send(to=honest.pubkey, message="gone", client_message_id="gone")).status_code == 202
    again = await make_served(name="bob", empty=True)
    assert set(await gets(again, "gone")) == {"gone"}


async def test_m1_metadata_is_limited_where_it_is_sent(served: ServedDaemon) -> None:
    def deep(levels: int) -> Any:
        return {"a": deep(levels - 1)} if levels > 1 else {}

    for levels, status in ((64, 202), (65, 400), (90, 400), (900, 400)):
        answer = await served.send(meta=deep(levels))
        assert answer.status_code == status, (levels, answer.text)
        assert status == 202 or answer.json()["code"] == "INVALID_INPUT"
    for size, status in ((32_000, 202), (33_000, 413)):
        answer = await served.send(meta={"a": "x" * size})
        assert answer.status_code == status, (size, answer.text)
        assert status == 202 or answer.json()["code"] == "PAYLOAD_TOO_LARGE"


def stored_by_674d676(home: DaemonHome) -> None:
    """The databases of a daemon of that commit, whose inbox took metadata that nobody can pass on."""
    for path, name, version in ((home.outbox, "outbox", 1), (home.inbox, "inbox", 4)):
        with closing(apsw.Connection(str(path))) as connection:
            run_script(connection, (FOLDER / name / f"v{version}.sql").read_text(encoding="utf-8"))
            if name == "inbox":
                deep = b'{"a": ' * 950 + b"1" + b"}" * 950
                connection.execute("UPDATE inbox SET meta = ? WHERE seq = 2", (deep.decode(),))
                data = '{"name": "news", "data": ' + deep.decode() + "}"
                insert = "INSERT INTO event (at, kind, mesh_id, inbox_seq, data) VALUES (?, 'system', NULL, NULL, ?)"
                connection.execute(insert, (NOW, data))


async def test_m1_what_an_older_daemon_stored_is_listed_as_unreadable(make_served: MakeServed) -> None:
    served = await make_served(started=False, name="old")
    await served.close()
    for part in ("", "-wal", "-shm"):
        for path in (served.home.inbox, served.home.outbox):
            path.with_name(path.name + part).unlink(missing_ok=True)
    stored_by_674d676(served.home)
    again = await make_served(name="old", inbox={"retention_days": 3_650})
    items = await listed(again, "/v1/inbox?mark_seen=false")
    assert {name: (each["body"], each["undecryptable"]) for name, each in items.items()} == {
        "m-1": ("text 1", False),
        "m-2": (None, True),
        "m-3": (None, True),
    }
    assert set(await listed(again, "/v1/inbox/search?q=text")) == {"m-1", "m-2"}
    assert (await again.unix.get("/v1/health")).json()["ok"] is True
    assert await streamed(again, 3) == ["message", "message", "decrypt_failed"]


async def ask(made: Town, path: str) -> Any:
    transport = httpx.AsyncHTTPTransport(uds=str(made.home("d0").socket))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=SECONDS) as client:
        return (await client.get(path)).json()


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_what_cannot_be_opened_is_kept_and_what_comes_after_it_is_read() -> None:
    async with town() as made:
        mesh_id = made.people.mesh_ids[0]
        honest, mallory, other = (made.people.members[mesh_id, name] for name in ("d0", "d1", "d2"))
        async with speaking_as(f"ws://127.0.0.1:{made.proxy.target}", mallory) as peer:
            for number, bad in enumerate(BAD.values()):
                answer = await peer.send(frame(f"bad-{number}", honest, bad(mallory, honest, other)))
                assert isinstance(answer, Accepted)
            good = await peer.send(frame("good", honest, sealed(inside(TEXT), mallory, honest)))
            assert isinstance(good, Accepted)
        assert await made.come_to_rest() == []
        items = {each["client_message_id"]: each for each in (await ask(made, "/v1/inbox?mark_seen=false"))["items"]}
        assert items["good"]["body"] == TEXT
        assert items["good"]["sender_pubkey"] == mallory.pubkey
        assert {items[f"bad-{number}"]["body"] for number in range(len(BAD))} == {None}
        states = {row[3] for row in made.state().deliveries}
        assert states == {"stored", "undecryptable"}
        assert (await ask(made, "/v1/health"))["ok"] is True
        shown = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-P", "-m", "parley", "inbox", "--json"],
            env={**os.environ, "PARLEY_DAEMON_HOME": str(made.home("d0").root)},
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
        assert {each["client_message_id"] for each in json.loads(shown.stdout)["items"]} == set(items)
