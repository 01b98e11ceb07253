"""Daemons and a broker that are real: what one sends, the others have, once, whatever ends in between."""

import asyncio
import json
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.load.ports import lasting_port
from parley.core import sealing
from parley.core.daemon_errors import MembershipLost
from parley.daemon.inbox.events import events_after
from parley.daemon.joining import create_mesh
from parley.daemon.profile import read_own
from parley.daemon.rosters.acts import rotate
from parley.daemon.rosters.mesh import RosterMesh
from parley.wire.broker import Notice
from tests.broker.process import Process, broker
from tests.daemon.served_daemon import MakeServed, ServedDaemon


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with broker(tmp_path_factory.mktemp("shared") / "broker", "--open-creation") as serving:
        yield serving


@pytest.fixture
async def pair(
    process: Process, make_served: MakeServed, request: pytest.FixtureRequest
) -> tuple[ServedDaemon, ServedDaemon]:
    """Two daemons in a mesh of their own; both have its key."""
    return await met(process.url, slug(request), make_served)


def slug(request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).removeprefix("test_").replace("_", "-").replace("[", "-").removesuffix("]")
    return name[-60:].lstrip("-")


async def met(url: str, name: str, make_served: MakeServed) -> tuple[ServedDaemon, ServedDaemon]:
    alice = await make_served(name="alice", empty=True)
    founded = await alice.unix.post("/v1/mesh/found", json={"broker": url, "slug": name, "name": "alice"})
    assert founded.status_code == 200, founded.text
    bob = await joined(make_served, "bob", await invite(alice))
    return alice, bob


async def joined(make_served: MakeServed, name: str, text: str) -> ServedDaemon:
    served = await make_served(name=name, empty=True)
    answer = await served.unix.post("/v1/mesh/join", json={"invite": text, "name": name})
    assert answer.status_code == 200, answer.text
    await served.until(lambda: served.daemon.mesh(None).key_epoch is not None)
    return served


async def invite(served: ServedDaemon) -> str:
    return (await served.unix.post("/v1/mesh/invite", json={})).json()["invite"]


def roster_mesh(served: ServedDaemon) -> RosterMesh:
    """The daemon's only mesh."""
    mesh = served.daemon.mesh(None)
    assert isinstance(mesh, RosterMesh)
    return mesh


async def sends(served: ServedDaemon, to: str, message: str, **more: object) -> None:
    answer = await served.send(to=to, message=message, **more)
    assert answer.status_code == 202, answer.text


async def test_direct_messages_topics_groups_and_broadcasts_arrive_readable(
    pair: tuple[ServedDaemon, ServedDaemon],
) -> None:
    alice, bob = pair
    for served in pair:
        assert (await served.unix.post("/v1/topic/subscribe", json={"topic": "alerts"})).status_code == 200
    joins = {"method": "join_group", "params": {"group": "ops/eu"}}
    assert (await bob.unix.post("/v1/mesh/call", json=joins)).status_code == 200
    for to in ("bob", "#alerts", "@ops", "*"):
        await sends(alice, to, f"to {to}", meta={"n": to}, priority="now")
    await bob.until(lambda: len(bob.bodies()) == 4)
    assert set(bob.bodies()) == {"to bob", "to #alerts", "to @ops", "to *"}
    items = (await bob.unix.get("/v1/inbox")).json()["items"]
    assert {(each["body"], each["meta"]["n"], each["sender_name"]) for each in items} == {
        (f"to {to}", to, "alice") for to in ("bob", "#alerts", "@ops", "*")
    }
    await alice.until(lambda: alice.states() == {"done": 4})
    sent = next(each for each in (await alice.unix.get("/v1/outbox")).json()["items"] if each["to"] == "bob")
    states: list[str] = []
    async with asyncio.timeout(60):
        while states != ["delivered"]:  # bob's word may still be on its way to the broker
            shown = (await alice.unix.get(f"/v1/outbox/{sent['id']}")).json()
            states = [each["state"] for each in shown["deliveries"]]
    first = next(each for each in items if each["kind"] == "dm")
    await sends(bob, "alice", "back", reply_to_id=first["broker_message_id"])
    await alice.until(lambda: alice.bodies() == ["back"])
    (answer,) = (await alice.unix.get("/v1/inbox")).json()["items"]
    assert answer["reply_to_id"] == first["broker_message_id"]


async def test_a_recipient_that_was_off_gets_everything_later(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed
) -> None:
    alice, bob = pair
    await bob.close()
    for number in range(20):
        await sends(alice, "bob", f"{number}")
    await alice.until(lambda: alice.states() == {"done": 20})
    again = await make_served(name="bob", empty=True)
    await again.until(lambda: len(again.bodies()) == 20)
    assert sorted(map(str, again.bodies()), key=int) == [str(number) for number in range(20)]


async def test_a_list_tells_who_has_what_was_sent_and_guesses_nothing(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = pair

    async def listed() -> list[dict[str, object] | None]:
        items = (await alice.unix.get("/v1/outbox?reached=true")).json()["items"]
        assert all(each["status"] == "done" for each in items)
        return [each["reached"] for each in items]

    await bob.close()
    await sends(alice, "bob", "one")
    await sends(alice, "*", "two")
    await alice.until(lambda: alice.states() == {"done": 2})
    asked: list[str] = []
    ask = alice.daemon.mesh(None).runner.ask

    def counted(method: str, params: dict[str, Any] | None = None) -> Any:
        asked.append(method)
        return ask(method, params)

    monkeypatch.setattr(alice.daemon.mesh(None).runner, "ask", counted)
    assert await listed() == [{"recipients": 1, "delivered": 0, "dead": 0, "undecryptable": 0}] * 2
    assert asked.count("messages_reached") == 1
    assert "reached" not in (await alice.unix.get("/v1/outbox")).json()["items"][0]
    bob = await make_served(name="bob", empty=True)
    await bob.until(lambda: len(bob.bodies()) == 2)
    async with asyncio.timeout(60):
        while await listed() != [{"recipients": 1, "delivered": 1, "dead": 0, "undecryptable": 0}] * 2:
            pass  # bob's word may still be on its way to the broker
    await alice.daemon.mesh(None).runner.stop()
    assert await listed() == [None, None]


async def test_a_roster_is_stale_until_the_broker_has_answered_also_when_it_answers_with_a_refusal(
    pair: tuple[ServedDaemon, ServedDaemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a name would mean who had it before, to whoever sends while the answer is on its way."""
    alice, _ = pair
    mesh = roster_mesh(alice)
    ask, asked, answered = mesh.runner.ask, asyncio.Event(), asyncio.Event()

    async def held_back(method: str, params: dict[str, Any] | None = None) -> Any:
        answer = await ask(method, params)
        asked.set()
        await answered.wait()
        return answer

    while mesh.roster_stale:
        await mesh.read_roster()  # the word of bob's coming may still be on its way
    mesh._heed(Notice("roster_head", {"n": mesh.copy.n + 1}))
    monkeypatch.setattr(mesh.runner, "ask", held_back)
    reading = asyncio.create_task(mesh.read_roster())
    await asked.wait()
    assert mesh.roster_stale
    answered.set()
    await reading
    assert not mesh.roster_stale

    async def refused(method: str, params: dict[str, Any] | None = None) -> Any:
        raise MembershipLost("no")

    mesh._heed(Notice("roster_head", {"n": mesh.copy.n + 1}))
    monkeypatch.setattr(mesh.runner, "ask", refused)
    with pytest.raises(MembershipLost):
        await mesh.read_roster()
    assert mesh.roster_stale


async def test_a_broker_that_is_killed_in_mid_stream_loses_and_doubles_nothing(
    tmp_path: Path, make_served: MakeServed
) -> None:
    folder = tmp_path / "broker"
    port = lasting_port()
    with broker(folder, "--open-creation", port=port) as first:
        alice, bob = await met(first.url, "stream", make_served)
        await asyncio.gather(*(sends(alice, "bob", f"{number}") for number in range(30)))
        await bob.until(lambda: len(bob.bodies()) > 0)
        first.kill()
    await asyncio.gather(*(sends(alice, "bob", f"{number}") for number in range(30, 60)))
    with broker(folder, "--open-creation", port=port):
        await bob.until(lambda: len(bob.bodies()) >= 60)
        await alice.until(lambda: alice.states() == {"done": 60})
    assert sorted(map(str, bob.bodies()), key=int) == [str(number) for number in range(60)]


async def test_names_mean_the_same_after_a_restart_while_the_broker_is_away(
    tmp_path: Path, make_served: MakeServed
) -> None:
    with broker(tmp_path / "broker", "--open-creation") as serving:
        alice, _ = await met(serving.url, "away", make_served)
        await sends(alice, "bob", "now")
    await alice.close()
    again = await make_served(name="alice", empty=True)
    await sends(again, "bob", "later")


async def test_who_never_wrote_to_anybody_still_can_once_the_broker_is_away(
    tmp_path: Path, make_served: MakeServed
) -> None:
    with broker(tmp_path / "broker", "--open-creation") as serving:
        _, bob = await met(serving.url, "silent", make_served)
        await bob.until(lambda: bob.daemon.mesh(None).roster.peers is not None)
    await sends(bob, "alice", "are you there?")


@pytest.mark.parametrize("left", [b"not a database at all" * 500, b""], ids=["damaged", "empty"])
async def test_a_lost_inbox_is_filled_again_by_the_broker(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed, left: bytes
) -> None:
    alice, bob = pair
    for number in range(3):
        await sends(alice, "bob", f"{number}")
    await bob.until(lambda: len(bob.bodies()) == 3)
    await bob.close()
    bob.home.inbox.write_bytes(left)
    for part in ("-wal", "-shm"):
        bob.home.inbox.with_name(bob.home.inbox.name + part).unlink(missing_ok=True)
    again = await make_served(name="bob", empty=True)
    await again.until(lambda: sorted(map(str, again.bodies())) == ["0", "1", "2"])
    assert again.daemon.store.renewed
    assert (again.daemon.store.set_aside is None) == (left == b"")
    forgotten = await again.unix.get("/v1/events", headers={"last-event-id": "1"})
    assert (forgotten.status_code, forgotten.json()["code"]) == (410, "CURSOR_EXPIRED")


async def test_a_broker_that_hangs_keeps_nobody_from_seeing_the_peers_of_other_meshes(
    tmp_path: Path, process: Process, make_served: MakeServed, request: pytest.FixtureRequest
) -> None:
    alice, _ = await met(process.url, slug(request), make_served)
    with broker(tmp_path / "hung", "--open-creation") as other:
        created = await create_mesh(other.url, "elsewhere", "elsewhere", None)
        joining = await alice.unix.post("/v1/mesh/join", json={"invite": created.invite, "name": "alice"})
        assert joining.status_code == 200
        await alice.until(lambda: alice.daemon.mesh("elsewhere").runner.machine.ready)
        other.popen.send_signal(signal.SIGSTOP)
        try:
            answer = (await alice.unix.get("/v1/peers")).json()
        finally:
            other.popen.send_signal(signal.SIGCONT)
    assert answer["unreachable"] == ["elsewhere"]
    assert {peer["displayName"] for peer in answer["peers"]} == {"alice", "bob"}


async def test_who_is_removed_ends_for_good_and_the_others_get_a_new_key(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed
) -> None:
    alice, bob = pair
    carol = await joined(make_served, "carol", await invite(alice))
    answer = await alice.unix.post("/v1/mesh/call", json={"method": "revoke", "params": {"member": "carol"}})
    assert answer.json()["state"] == "revoked"
    async with asyncio.timeout(60):
        await carol.daemon.ended.wait()
    assert isinstance(carol.daemon.refusal, MembershipLost)
    for served in pair:
        await served.until(lambda served=served: served.daemon.mesh(None).membership.mesh_keys[-1].epoch == 2)
    await sends(alice, "*", "without carol")
    await bob.until(lambda: bob.bodies() == ["without carol"])
    keys = [served.daemon.mesh(None).membership.mesh_keys for served in (alice, bob, carol)]
    assert keys[0] == keys[1] != keys[2]
    for name, status in (
        ("carol", 200),
        ("dora", 404),
    ):  # who is gone still has a name for those who may bring her back
        lifted = await alice.unix.post("/v1/mesh/call", json={"method": "unban", "params": {"member": name}})
        assert lifted.status_code == status


async def test_a_replaced_key_is_archived_and_the_member_goes_on(pair: tuple[ServedDaemon, ServedDaemon]) -> None:
    alice, bob = pair
    old = bob.daemon.mesh(None).membership.pubkey
    answer = await bob.unix.post("/v1/mesh/rotate-keypair", json={})
    assert answer.status_code == 200, answer.text
    await bob.until(lambda: bob.daemon.mesh(None).runner.machine.ready)
    assert bob.daemon.mesh(None).membership.pubkey == answer.json()["pubkey"] != old
    await sends(alice, old, "to the old key")
    await sends(alice, "*", "to all")
    await bob.until(lambda: set(bob.bodies()) == {"to the old key", "to all"})
    await sends(bob, "alice", "from the new key")
    await alice.until(lambda: alice.bodies() == ["from the new key"])


async def test_a_daemon_that_died_while_its_key_was_replaced_goes_on_with_the_new_one(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed
) -> None:
    """The broker knows the new key, the daemon only that there was to be one. What it takes until then is not lost."""
    alice, bob = pair
    mesh = roster_mesh(bob)
    seed = sealing.new_key(secrets.token_bytes)
    pubkey = sealing.public_key(seed).hex()
    bob.daemon.memberships.put(replace(mesh.membership, next_seed=seed.hex()))
    await mesh.do(rotate(seed, compromised=False))
    await bob.close()
    again = await make_served(name="bob", empty=True)
    await sends(again, "*", "sealed under the old key, perhaps")
    await again.until(lambda: again.daemon.mesh(None).membership.pubkey == pubkey)
    await sends(again, "*", "sealed under the new key")
    await alice.until(lambda: set(alice.bodies()) == {"sealed under the old key, perhaps", "sealed under the new key"})


async def test_the_same_member_from_elsewhere_ends_the_first_and_does_not_bring_it_back(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed
) -> None:
    _, bob = pair
    copy = await make_served(name="copy", empty=True)
    copy.daemon.memberships.put(bob.daemon.mesh(None).membership)
    assert (await copy.unix.post("/v1/reload")).json()["attached"]
    await copy.until(lambda: copy.daemon.mesh(None).runner.machine.ready)
    async with asyncio.timeout(60):
        await bob.daemon.ended.wait()
    assert isinstance(bob.daemon.refusal, MembershipLost)
    assert bob.daemon.refusal.details["close_code"] == 4003
    assert copy.daemon.mesh(None).runner.machine.ready


async def test_the_safety_number_is_the_same_on_both_sides(pair: tuple[ServedDaemon, ServedDaemon]) -> None:
    alice, bob = pair
    hers = (await alice.unix.get("/v1/mesh/safety?peer=bob")).json()["safety_number"]
    his = (await bob.unix.get("/v1/mesh/safety?peer=alice")).json()["safety_number"]
    assert hers == his
    assert len(hers.split()) == 6


async def test_a_member_who_leaves_is_served_no_longer(pair: tuple[ServedDaemon, ServedDaemon]) -> None:
    alice, bob = pair
    assert (await bob.unix.post("/v1/mesh/call", json={"method": "leave"})).json()["state"] == "left"
    assert bob.daemon.meshes == {}
    assert bob.daemon.memberships.all() == []
    await alice.until(lambda: "bob" not in alice.daemon.mesh(None).roster.names)
    assert (await alice.send(to="bob")).status_code == 404


async def test_peers_and_profiles_are_seen_by_the_others(pair: tuple[ServedDaemon, ServedDaemon]) -> None:
    alice, bob = pair
    await bob.unix.post("/v1/profile", json={"status": "dnd", "summary": "thinking"})
    peers = {each["display_name"]: each for each in (await alice.unix.get("/v1/peers")).json()["peers"]}
    assert (peers["bob"]["status"], peers["bob"]["summary"], peers["bob"]["connected"]) == ("dnd", "thinking", True)
    await sends(alice, "bob", "later", priority="next")
    await sends(alice, "bob", "at once", priority="now")
    await bob.until(lambda: bob.bodies() == ["at once"])
    await bob.unix.post("/v1/profile", json={"status": "idle"})
    await bob.until(lambda: bob.bodies() == ["at once", "later"])


async def test_what_a_member_tells_of_itself_is_read_by_members_and_not_by_the_broker(
    tmp_path: Path, make_served: MakeServed
) -> None:
    with broker(tmp_path / "broker", "--open-creation") as serving:
        alice, bob = await met(serving.url, "profiles", make_served)
        told = {"title": "Reviewer of kernels", "bio": "reads\nslowly", "capabilities": ["c"], "summary": "at lunch"}
        assert (await bob.unix.post("/v1/profile", json={"status": "dnd"})).json()["applied"] == ["status"]
        await bob.unix.post("/v1/profile", json=told)
        await bob.unix.post("/v1/profile", json={"avatar": "https://example.org/b.png"})
        seen = await peers_of(alice)
        assert {name: seen["bob"][name] for name in told} == told
        assert (seen["bob"]["status"], seen["bob"]["avatar"]) == ("dnd", "https://example.org/b.png")
        assert seen["alice"]["title"] is None
        carol = await joined(make_served, "carol", await invite(alice))
        await alice.unix.post("/v1/mesh/call", json={"method": "revoke", "params": {"member": "carol"}})
        await bob.until(lambda: bob.daemon.mesh(None).membership.mesh_keys[-1].epoch == 2)
        await bob.until(lambda: own_epoch(bob) == 2)
        assert (await peers_of(alice))["bob"]["title"] == "Reviewer of kernels"
        assert (await bob.unix.post("/v1/profile", json={"visible": False})).status_code == 200
        assert "bob" not in await peers_of(alice)
        assert (await peers_of(bob))["bob"]["title"] == "Reviewer of kernels"
        assert (await bob.unix.post("/v1/profile", json={"title": "a\x00b"})).status_code == 400
        await carol.close()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "broker").glob("broker.db*"))
    assert b"bob" in kept
    assert b"kernels" not in kept
    assert b"lunch" not in kept


async def peers_of(served: ServedDaemon) -> dict[str, dict[str, object]]:
    return {each["display_name"]: each for each in (await served.unix.get("/v1/peers")).json()["peers"]}


def own_epoch(served: ServedDaemon) -> int | None:
    own = read_own(served.home, served.daemon.mesh(None).mesh_id)
    return None if own is None else own.key_epoch


async def test_a_member_hears_of_others_who_connect_and_not_of_itself(pair: tuple[ServedDaemon, ServedDaemon]) -> None:
    alice, bob = pair
    own, other = (served.daemon.mesh(None).membership.member_id for served in (alice, bob))
    await alice.until(lambda: other in _joined(alice))
    assert own not in _joined(alice)


def _joined(served: ServedDaemon) -> set[str]:
    """Whom the daemon told its programs of."""
    rows = served.daemon.store.read_inbox(
        lambda db: db.execute("SELECT data FROM event WHERE kind = 'peer_join'").fetchall()
    )
    return {json.loads(str(data))["member_id"] for (data,) in rows}


async def test_who_comes_and_goes_is_told_to_the_others(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed
) -> None:
    alice, bob = pair
    gone = bob.daemon.mesh(None).membership.member_id
    await bob.close()
    await alice.until(lambda: told_of(alice, "peer_leave") == {gone})
    await make_served(name="bob", empty=True)
    await alice.until(lambda: gone in told_of(alice, "peer_join"))


def told_of(served: ServedDaemon, kind: str) -> set[object]:
    events = served.daemon.store.read_inbox(lambda db: events_after(db, 0, 1000))
    return {event.data["member_id"] for event in events if event.kind == kind}
