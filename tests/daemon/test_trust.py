"""What an audit found of members, brokers and keys, row by row, through real daemons and a broker that somebody tampers
with. Each attempt has no effect or is noticed; with the rule that stops it weakened on purpose it succeeds."""

import asyncio
import base64
import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from bench.load.ports import lasting_port
from parley.core import sealing
from parley.core.roster import State, rules
from parley.core.roster.epoch_keys import EpochKeys, hand
from parley.core.roster.heads import Head
from parley.core.sealed_messages import Context, Said, seal_for_one, seal_for_several
from parley.daemon.rosters import keys, messages, standing
from parley.daemon.rosters.copy import RosterCopy
from parley.wire.roster_invites import decode_roster_invite, encode_roster_invite
from tests.broker.process import Process, broker
from tests.core.roster.town import seed_of
from tests.daemon.served_daemon import MakeServed, ServedDaemon
from tests.daemon.tampering import Frame, TamperedBroker, sent_to, tampered
from tests.daemon.test_exchange import invite, joined, met, roster_mesh, sends

EVE = b"\x0e" * 32
SLUGS = count()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with broker(tmp_path_factory.mktemp("shared") / "broker", "--open-creation") as serving:
        yield serving


@pytest.fixture
async def pair(process: Process, make_served: MakeServed) -> tuple[ServedDaemon, ServedDaemon]:
    return await met(process.url, f"mesh{next(SLUGS)}", make_served)


@pytest.fixture
async def eve(process: Process) -> AsyncIterator[TamperedBroker]:
    """A broker in whose hands everything is."""
    async with tampered(process.url, process.folder) as made:
        yield made


def state_of(served: ServedDaemon) -> State:
    state = roster_mesh(served).state
    assert state is not None
    return state


def member_id(served: ServedDaemon) -> str:
    return served.daemon.mesh(None).membership.member_id


async def calls(served: ServedDaemon, method: str, **params: str) -> tuple[int, Frame]:
    answer = await served.unix.post("/v1/mesh/call", json={"method": method, "params": params})
    return answer.status_code, answer.json()


async def said(served: ServedDaemon, method: str, **params: str) -> Frame:
    status, answer = await calls(served, method, **params)
    assert status == 200, answer
    return answer


async def items(served: ServedDaemon) -> list[Frame]:
    return (await served.unix.get("/v1/inbox?mark_seen=false")).json()["items"]


async def read(served: ServedDaemon) -> list[str]:
    """What is shown as said."""
    return [each["body"] for each in reversed(await items(served)) if each["body"] is not None]


async def follows(served: ServedDaemon, other: ServedDaemon) -> None:
    """Waits until the one has read what the other has."""
    await served.until(lambda: state_of(served).n >= state_of(other).n)


async def refused_invite(make_served: MakeServed, name: str, text: str) -> str:
    home = await make_served(name=name, empty=True)
    answer = await home.unix.post("/v1/mesh/join", json={"invite": text, "name": name})
    assert answer.status_code == 403, answer.text
    assert answer.json()["code"] == "INVITE_REFUSED"
    return answer.json()["details"]["reason"]


async def test_m2_a_removed_member_gets_no_key_whoever_removed_it(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed
) -> None:
    alice, bob = pair
    await said(alice, "set_role", member="bob", role="admin")
    carol = await joined(make_served, "carol", await invite(alice))
    await follows(bob, carol)
    await alice.close()
    await said(bob, "revoke", member="carol")
    dan = await joined(make_served, "dan", await invite(bob))
    await sends(bob, "*", "without carol")
    await dan.until(lambda: dan.bodies() == ["without carol"])
    epochs = [[each.epoch for each in who.daemon.memberships.all()[0].mesh_keys] for who in (bob, carol, dan)]
    assert epochs == [[1, 2], [1], [2]]


async def test_m3_the_invite_of_a_demoted_owner_makes_no_owners(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed
) -> None:
    alice, bob = pair
    await said(alice, "set_role", member="bob", role="owner")
    await follows(bob, alice)
    made = await bob.unix.post("/v1/mesh/invite", json={"role": "owner", "uses": 9})
    assert made.status_code == 200, made.text
    text = made.json()["invite"]
    carol = await joined(make_served, "carol", text)
    assert carol.daemon.mesh(None).membership.role == "owner"
    await said(alice, "set_role", member="bob", role="admin")
    assert await refused_invite(make_served, "dan", text) == "invite_void"
    assert {each.name for each in state_of(alice).owners()} == {"alice", "carol"}


def swaps(old: str, new: str) -> Any:
    """Says another key wherever the broker says this one."""

    def meddle(name: str, frame: Frame) -> list[Frame]:
        return [json.loads(json.dumps(frame).replace(old, new))]

    return meddle


async def test_m4_a_broker_that_swaps_keys_reads_nothing(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed, eve: TamperedBroker
) -> None:
    alice, bob = pair
    hers, evil = alice.daemon.mesh(None).membership.pubkey, sealing.public_key(EVE).hex()
    eve.meddle = swaps(hers, evil)
    bob = await sent_to(eve, bob, make_served)
    await sends(bob, "alice", "for alice alone")
    await alice.until(lambda: alice.bodies() == ["for alice alone"])
    peers = (await bob.unix.get("/v1/peers")).json()["peers"]
    assert {each["pubkey"] for each in peers if each["display_name"] == "alice"} == {hers}
    sent = next(frame for frame in eve.heard if frame["type"] == "send")
    assert (sent["ref"], sent["sender_key"]) == (member_id(alice), bob.daemon.mesh(None).membership.pubkey)
    secret = base64.b64decode(sent["body"])
    for key in (bob.daemon.mesh(None).membership.pubkey, evil):
        digest = sealing.bound_to("parley message 2 for one", ())
        assert sealing.unbox(secret, digest, EVE, bytes.fromhex(key)) is None


def sent_by(broker: TamperedBroker, text: str) -> str:
    """The invite, with another address of the broker."""
    told, secret = decode_roster_invite(text)
    return encode_roster_invite(replace(told, broker_url=broker.url), secret)


async def test_m4_a_joiner_takes_no_other_keys(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed, eve: TamperedBroker
) -> None:
    alice, _ = pair
    eve.meddle = swaps(alice.daemon.mesh(None).membership.pubkey, sealing.public_key(EVE).hex())
    assert await refused_invite(make_served, "carol", sent_by(eve, await invite(alice))) == "roster_withheld"


@pytest.mark.parametrize("weakened", [False, True])
async def test_a_joiner_is_shown_no_less_than_its_invite_was_made_after(
    pair: tuple[ServedDaemon, ServedDaemon],
    make_served: MakeServed,
    eve: TamperedBroker,
    monkeypatch: pytest.MonkeyPatch,
    weakened: bool,
) -> None:
    alice, _ = pair
    text, fingerprint = await invite(alice), state_of(alice).fingerprint
    head = eve.head(fingerprint, 0, fingerprint)

    def withholds(name: str, frame: Frame) -> list[Frame]:
        if name != "roster_read":
            return [frame]
        return [{**frame, "result": {**frame["result"], "entries": frame["result"]["entries"][:1], "head": head}}]

    eve.meddle = withholds
    if weakened:
        monkeypatch.setattr(RosterCopy, "is_whole", True)
        home = await make_served(name="carol", empty=True)
        joining = {"invite": sent_by(eve, text), "name": "carol"}
        assert (await home.unix.post("/v1/mesh/join", json=joining)).status_code == 200
    else:
        assert await refused_invite(make_served, "carol", sent_by(eve, text)) == "roster_withheld"


async def test_m4_a_broker_forges_nothing(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed, eve: TamperedBroker
) -> None:
    alice, bob = pair
    bob = await sent_to(eve, bob, make_served)
    await sends(alice, "bob", "true")
    await bob.until(lambda: bob.bodies() == ["true"])
    (push,) = eve.pushed
    state, his = state_of(bob), bytes.fromhex(bob.daemon.mesh(None).membership.pubkey)
    context = Context(state.fingerprint, "dm", member_id(bob), member_id(alice), "forged", 1)
    said = Said("forged", {}, Head(state.n, state.head, "0" * 128))
    body = seal_for_one(said, context, sender_seed=EVE, recipient=his, random=secrets.token_bytes)
    evil = sealing.public_key(EVE).hex()
    for number, sender in enumerate((push["message"]["sender"], evil), 100):
        changed = {"client_message_id": "forged", "body": base64.b64encode(body).decode(), "sender": sender}
        forged = {**push["message"], **changed, "client_message_id": f"forged{number}"}
        await eve.say({**push, "delivery_id": number, "message": forged})
    await sends(alice, "bob", "still true")
    await bob.until(lambda: "still true" in bob.bodies())
    assert await read(bob) == ["true", "still true"]


@pytest.mark.parametrize("weakened", [False, True])
@pytest.mark.parametrize("to", ["bob", "*"])
async def test_m4_a_broker_replays_nothing_as_new(
    pair: tuple[ServedDaemon, ServedDaemon],
    make_served: MakeServed,
    eve: TamperedBroker,
    monkeypatch: pytest.MonkeyPatch,
    weakened: bool,
    to: str,
) -> None:
    alice, bob = pair
    if weakened:
        monkeypatch.setattr(messages, "Context", lambda *parts: Context(*parts)._replace(client_message_id=""))
    bob = await sent_to(eve, bob, make_served)
    await sends(alice, to, "pay him")
    await bob.until(lambda: bob.bodies() == ["pay him"])
    (push,) = eve.pushed
    again = {**push["message"], "client_message_id": "another", "broker_message_id": "bm_another"}
    await eve.say({**push, "delivery_id": 99, "message": again})
    await bob.until(lambda: len(bob.bodies()) == 2)
    assert await read(bob) == ["pay him"] * (2 if weakened else 1)


@pytest.mark.parametrize("weakened", [False, True])
async def test_m5_no_member_chooses_the_key_for_others(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed, monkeypatch: pytest.MonkeyPatch, weakened: bool
) -> None:
    alice, bob = pair
    text = await invite(alice)
    await alice.close()
    mallory: Any = bob.daemon.mesh(None)
    mallory._syncing.cancel()
    if weakened:
        monkeypatch.setattr(keys, "fits", lambda state, keys: True)
    carol = await make_served(name="carol", empty=True)
    assert (await carol.unix.post("/v1/mesh/join", json={"invite": text, "name": "carol"})).status_code == 200
    chosen = EpochKeys(1, b"\1" * 32, b"\2" * 32)
    recipient = bytes.fromhex(carol.daemon.mesh(None).membership.pubkey)
    sealed = hand(
        chosen,
        fingerprint=mallory.copy.fingerprint,
        giver_seed=mallory.membership.seed_bytes,
        recipient=recipient,
        random=secrets.token_bytes,
    )
    given = {"member_id": member_id(carol), "key_epoch": 1, "sealed": base64.b64encode(sealed).decode()}
    await mallory.runner.ask("give_key", given)
    if weakened:
        await carol.until(lambda: bool(carol.daemon.mesh(None).membership.mesh_keys))
        assert carol.daemon.mesh(None).membership.mesh_keys[0].key == chosen.mesh.hex()
        return
    again = await make_served(name="alice", empty=True)
    await carol.until(lambda: carol.daemon.mesh(None).key_epoch == 1)
    await sends(again, "*", "to all")
    await carol.until(lambda: carol.bodies() == ["to all"])


def operator(*words: str) -> None:
    """A command on the broker's machine."""
    done = subprocess.run([sys.executable, "-P", "-m", "parley", "broker", *words], capture_output=True, check=False)
    assert done.returncode == 0, done


@pytest.mark.parametrize("weakened", [False, True])
async def test_m8_a_restored_broker_repeats_no_key_epoch_and_brings_nobody_back(
    tmp_path: Path, make_served: MakeServed, monkeypatch: pytest.MonkeyPatch, weakened: bool
) -> None:
    folder, copy, port = tmp_path / "broker", tmp_path / "copy", lasting_port()
    monkeypatch.setattr(standing, "CONFIRM_SECONDS", 0)
    with broker(folder, "--open-creation", port=port) as first:
        alice, bob = await met(first.url, "restored", make_served)
        carol = await joined(make_served, "carol", await invite(alice))
        operator("backup", str(copy), "--folder", str(folder))
        await said(alice, "revoke", member="carol")
        await bob.until(lambda: bob.daemon.mesh(None).key_epoch == 2)
        await carol.close()
    operator("restore", str(copy), "--folder", str(folder), "--force")
    if weakened:
        with closing(apsw.Connection(str(folder / "broker.db"))) as database:
            database.execute("UPDATE roster SET restoring = 0")
    with broker(folder, "--open-creation", port=port):
        if weakened:
            again = await make_served(name="carol", empty=True)
            await again.until(lambda: again.daemon.mesh(None).runner.machine.ready)
            return
        mesh = roster_mesh(alice)
        await alice.until(lambda: mesh.runner.machine.ready)
        async with asyncio.timeout(60):
            while (await alice.unix.get("/v1/mesh/info")).json()["restoring"]:
                await asyncio.gather(mesh.refresh(), return_exceptions=True)
        again = await make_served(name="carol", empty=True)
        async with asyncio.timeout(60):
            await again.daemon.ended.wait()
        dan = await joined(make_served, "dan", await invite(alice))
        assert dan.daemon.mesh(None).key_epoch == 2
        await said(alice, "revoke", member="dan")
        await bob.until(lambda: bob.daemon.mesh(None).key_epoch == 3)


async def test_m9_a_banned_member_does_not_come_back_by_its_invite(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed
) -> None:
    alice, _ = pair
    made = await alice.unix.post("/v1/mesh/invite", json={"uses": 9})
    text = made.json()["invite"]
    for name in ("mallory", "carol"):
        await joined(make_served, name, text)
    await alice.until(lambda: "carol" in state_of(alice).names)
    banned = await said(alice, "ban", member="mallory")
    assert (banned["state"], banned["same_invite"]) == ("banned", ["carol"])
    assert await refused_invite(make_served, "new-home", text) == "invite_revoked"
    await joined(make_served, "dan", await invite(alice))


async def test_m11_no_two_members_have_the_same_name(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed
) -> None:
    alice, bob = pair
    text = await invite(alice)
    home = await make_served(name="second", empty=True)
    for name in ("bob", "all"):
        answer = await home.unix.post("/v1/mesh/join", json={"invite": text, "name": name})
        assert (answer.status_code, answer.json()["code"]) == (409, "NAME_TAKEN")
    assert (await home.unix.post("/v1/mesh/join", json={"invite": text, "name": "Bob"})).status_code == 400
    assert (await home.unix.post("/v1/mesh/join", json={"invite": text, "name": "bob2"})).status_code == 200
    await home.until(lambda: home.daemon.mesh(None).runner.machine.ready)
    renamed = await home.unix.post("/v1/mesh/rename", json={"name": "alice"})
    assert (renamed.status_code, renamed.json()["code"]) == (409, "NAME_TAKEN")
    await sends(alice, "bob", "to the first")
    await bob.until(lambda: bob.bodies() == ["to the first"])


@pytest.mark.parametrize("weakened", [False, True])
async def test_m13_no_member_speaks_in_anothers_name(
    pair: tuple[ServedDaemon, ServedDaemon],
    make_served: MakeServed,
    eve: TamperedBroker,
    monkeypatch: pytest.MonkeyPatch,
    weakened: bool,
) -> None:
    alice, bob = pair
    carol = await joined(make_served, "carol", await invite(alice))
    await follows(bob, carol)
    bob = await sent_to(eve, bob, make_served)
    if weakened:
        monkeypatch.setattr("parley.core.sealed_messages.sealing.verify", lambda *_: True)
    await sends(alice, "*", "true")
    await bob.until(lambda: bob.bodies() == ["true"])
    (push,) = eve.pushed
    state, key = state_of(bob), bytes.fromhex(carol.daemon.mesh(None).membership.mesh_keys[0].key)
    context = Context(state.fingerprint, "queue", "*", member_id(alice), "forged", 1)
    head = carol.daemon.mesh(None).newest_head()
    body = seal_for_several(
        Said("forged", {}, head),
        context,
        sender_seed=carol.daemon.mesh(None).membership.seed_bytes,
        mesh_key=key,
        random=secrets.token_bytes,
    )
    forged = {**push["message"], "client_message_id": "forged", "body": base64.b64encode(body).decode()}
    await eve.say({**push, "delivery_id": 99, "message": forged})
    await bob.until(lambda: len(bob.bodies()) == 2)
    assert await read(bob) == (["true", "forged"] if weakened else ["true"])
    if not weakened:
        assert [each["refused"] for each in await items(bob)] == ["sender_not_proven", None]


@pytest.mark.parametrize("weakened", [False, True])
async def test_m13_a_broker_adds_no_member(
    pair: tuple[ServedDaemon, ServedDaemon],
    make_served: MakeServed,
    eve: TamperedBroker,
    monkeypatch: pytest.MonkeyPatch,
    weakened: bool,
) -> None:
    from parley.core.roster.authoring import join_entry, make_invite

    alice, bob = pair
    state = state_of(bob)
    secret = seed_of("invite of the broker")
    forged = make_invite(
        state, issuer=member_id(alice), seed=EVE, secret=secret, role="owner", uses=1, expires=state.at + 10**9
    )
    entry = join_entry(state, forged, secret, name="eve", seed=EVE, at=state.at)

    def adds(name: str, frame: Frame) -> list[Frame]:
        if name != "roster_read" or frame["result"]["entries"]:
            return [frame]
        return [{**frame, "result": {**frame["result"], "entries": [entry.decode()]}}]

    if weakened:
        monkeypatch.setattr(rules.are, "is_invite_signed", lambda *_: True)
    eve.meddle = adds
    bob = await sent_to(eve, bob, make_served)
    await sends(alice, "bob", "hello")
    await bob.until(lambda: bob.bodies() == ["hello"])
    assert (await bob.send(to="eve", message="psst")).status_code == (202 if weakened else 404)


async def test_m13_what_comes_from_a_removed_member_is_not_shown_and_a_compared_key_is_remembered(
    pair: tuple[ServedDaemon, ServedDaemon], make_served: MakeServed, eve: TamperedBroker
) -> None:
    alice, bob = pair
    carol = await joined(make_served, "carol", await invite(alice))
    await follows(bob, carol)
    bob = await sent_to(eve, bob, make_served)
    eve.meddle = lambda name, frame: [] if name == "push" else [frame]
    await sends(carol, "*", "said before, delivered after")
    await carol.until(lambda: carol.states() == {"done": 1})
    shown = await bob.unix.post("/v1/mesh/verify", json={"peer": "alice", "confirm": True})
    assert (shown.json()["verified_at"] is None, shown.json()["key_changed"]) == (False, False)
    await said(alice, "revoke", member="carol")
    await follows(bob, alice)
    await bob.until(lambda: bool(eve.pushed))
    await eve.say(eve.pushed[0])
    await bob.until(lambda: len(bob.bodies()) == 1)
    assert [each["refused"] for each in await items(bob)] == ["sender_removed"]
    assert (await alice.unix.post("/v1/mesh/rotate-keypair", json={})).status_code == 200
    await follows(bob, alice)
    shown = await bob.unix.post("/v1/mesh/verify", json={"peer": "alice"})
    assert (shown.json()["verified_at"], shown.json()["key_changed"]) == (None, True)


def hides(eve: TamperedBroker, served: ServedDaemon) -> Any:
    """Shows nothing of the roster that comes after what this daemon has now."""
    state = state_of(served)
    head = eve.head(state.fingerprint, state.n, state.head)

    def meddle(name: str, frame: Frame) -> list[Frame]:
        if name == "notice" and frame["name"] == "roster_head":
            return []
        if name == "roster_welcome":
            return [{**frame, "roster": {**frame["roster"], "head": head}}]
        if name == "roster_read":
            return [{**frame, "result": {**frame["result"], "entries": [], "head": head}}]
        return [frame]

    return meddle


@pytest.mark.parametrize("weakened", [False, True])
async def test_a_broker_that_hides_a_removal_is_found_out(
    pair: tuple[ServedDaemon, ServedDaemon],
    make_served: MakeServed,
    eve: TamperedBroker,
    monkeypatch: pytest.MonkeyPatch,
    weakened: bool,
) -> None:
    alice, bob = pair
    await joined(make_served, "carol", await invite(alice))
    await follows(bob, alice)
    await bob.until(lambda: "carol" in state_of(bob).names)
    monkeypatch.setattr(standing, "SERVED_SECONDS", 0.2)
    monkeypatch.setattr(standing, "LOOK_SECONDS", 0.1)
    if weakened:
        monkeypatch.setattr(messages, "_judged", _believed)
    eve.meddle = hides(eve, bob)
    bob = await sent_to(eve, bob, make_served)
    await said(alice, "revoke", member="carol")
    await sends(alice, "bob", "carol is gone")
    if weakened:
        await bob.until(lambda: bob.bodies() == ["carol is gone"])
        assert roster_mesh(bob).copy.marks.split is None
        return
    mesh = roster_mesh(bob)
    await bob.until(lambda: mesh.copy.marks.split is not None)
    (shown,) = (await bob.unix.get("/v1/meshes")).json()["meshes"]
    assert shown["split"] is True
    info = (await bob.unix.get("/v1/mesh/info")).json()
    assert info["split"]["n"] > info["head"]["n"]
    await sends(bob, "*", "to whom?")
    await asyncio.gather(mesh.refresh(), return_exceptions=True)
    assert bob.states() == {"pending": 1}, "nothing is sent while carol may be reading"
    renamed = await bob.unix.post("/v1/mesh/rename", json={"name": "ben"})
    assert (renamed.status_code, renamed.json()["code"]) == (409, "ROSTER_SPLIT")


def _believed(said: Said, view: object, message: object) -> messages.Opened:
    """What a message says of the roster is not looked at."""
    return messages.Opened(said.body, said.meta)


@pytest.mark.parametrize("weakened", [False, True])
async def test_a_broker_that_shows_two_rosters_is_found_out_and_an_owner_settles_it(
    pair: tuple[ServedDaemon, ServedDaemon],
    make_served: MakeServed,
    eve: TamperedBroker,
    monkeypatch: pytest.MonkeyPatch,
    weakened: bool,
) -> None:
    alice, bob = pair
    await said(alice, "set_role", member="bob", role="owner")
    assert (await alice.unix.post("/v1/mesh/rename", json={"name": "ann"})).status_code == 200
    await follows(bob, alice)
    state = state_of(bob)
    other = eve.head(state.fingerprint, state.n, "ab" * 32)
    is_two_faced = True

    def shows(name: str, frame: Frame) -> list[Frame]:
        if name == "roster_read" and is_two_faced:
            return [{**frame, "result": {**frame["result"], "head": other}}]
        return [frame]

    if weakened:
        monkeypatch.setattr("parley.daemon.rosters.copy.RosterCopy.hear", lambda copy, head: "known")
    eve.meddle = shows
    bob = await sent_to(eve, bob, make_served)
    mesh = roster_mesh(bob)
    if weakened:
        await mesh.refresh()
        assert mesh.copy.marks.split is None
        return
    await bob.until(lambda: mesh.copy.marks.split is not None)
    assert (await bob.unix.get("/v1/mesh/info")).json()["split"]["hash"] == "ab" * 32
    await sends(bob, "ann", "as soon as it is settled")
    is_two_faced = False
    settled = await bob.unix.post("/v1/mesh/settle", json={})
    assert settled.status_code == 200, settled.text
    assert settled.json()["changed"]
    await alice.until(lambda: alice.bodies() == ["as soon as it is settled"])
    assert (await bob.unix.get("/v1/mesh/info")).json()["split"] is None
