"""A mesh with a roster through a broker's process and its WebSockets: founded, joined, changed, read, and refused."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from parley.broker.session import ENDED, FAILED, HELLO, PROTOCOL_ERROR, UPGRADE
from parley.core import sealing
from parley.core.roster import entries
from parley.core.roster.entries import entry_hash
from parley.core.roster.heads import Head, judge_head
from parley.wire.broker import Accepted, Answer, ErrorFrame, Hello, Notice, RefusedSend, Request, hello_bytes
from tests.broker.process import SECONDS, Peer, Process, broker
from tests.broker.roster_peers import RosterMesh, as_joiner, as_member, challenged, join, refused
from tests.conformance.broker.circle import make_send
from tests.conformance.broker.rostered import texts
from tests.core.roster.town import key_body, key_of, seed_of
from tests.postgres import Server

SLUGS = count()
DEAD = 9
DIES_BEFORE_COMMIT = f"""
import os
from parley.broker.rules import roster_append
roster_append.write_members = lambda *_: os._exit({DEAD})
"""
DIES_BEFORE_ANSWER = f"""
import os
from parley.broker.session import Session
answered = Session._on_answered
def die(self, request_id, done, error):
    if done is not None and "appended" in done.result:
        os._exit({DEAD})
    return answered(self, request_id, done, error)
Session._on_answered = die
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with broker(tmp_path_factory.mktemp("rosters") / "broker") as serving:
        yield serving


@pytest.fixture
def mesh(process: Process) -> RosterMesh:
    made = RosterMesh(process, f"mesh{next(SLUGS)}")
    assert made.found().status_code == 201
    return made


async def problem(peer: Peer, method: str, **params: Any) -> str:
    """The code with which a request is refused."""
    await peer.say(Request(99, method, params))
    answer = await peer.hear(Answer)
    assert answer.problem is not None, answer
    return answer.problem.code


def is_known(mesh: RosterMesh, head: Head) -> bool:
    log = mesh.town.log
    return judge_head(mesh.town.state, lambda n: entry_hash(log[n]) if n < len(log) else None, head) == "known"


async def test_a_mesh_is_founded_with_the_creation_token_and_again_with_the_same_entries(process: Process) -> None:
    mesh = RosterMesh(process, f"mesh{next(SLUGS)}")
    assert mesh.found(token="nonsense").json()["code"] == "CREATION_REFUSED"
    forged = [mesh.town.log[0], mesh.town.log[1].replace(b'"at":', b'"at":1')]
    assert mesh.found(log=forged).json()["code"] == "ROSTER_REFUSED"
    first, again = mesh.found(), mesh.found()
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["fingerprint"] == entry_hash(mesh.town.log[0])
    assert is_known(mesh, Head(**first.json()["head"]))


async def test_who_bears_an_invite_reads_the_roster_joins_and_is_a_member(mesh: RosterMesh) -> None:
    invite = mesh.town.invite("ada", uses=1)
    data = mesh.town.joining("bob", invite)
    async with as_member(mesh, "ada") as ada, as_joiner(mesh, "bob", invite) as bob:
        assert (bob.welcome.member_id, bob.welcome.role) == ("", "")
        assert is_known(mesh, bob.welcome.roster.head)
        assert (await bob.request("roster_read"))["entries"] == texts(mesh.town.log)
        answer = await bob.append(1, data)
        assert answer["appended"]
        mesh.grow(data)
        while (notice := await ada.hear(Notice)).name != "roster_head":
            pass
        assert notice.data == answer["head"]
        again = await bob.append(1, data)
        assert again == answer
    async with as_joiner(mesh, "bob", invite) as bob:
        assert await bob.append(1, data) == answer, "the invite is used up, and its bearer is a member"
    mesh.town.ids["bob"] = mesh.town.state.names["bob"]
    async with as_member(mesh, "bob") as bob:
        assert (bob.welcome.member_id, bob.welcome.role) == (mesh.town.ids["bob"], "member")
        assert is_known(mesh, bob.welcome.roster.head)
        assert sorted(each["display_name"] for each in (await bob.request("peers"))["peers"]) == ["ada", "bob"]


async def test_a_member_is_removed_with_a_key_at_once_and_its_connection_ends(mesh: RosterMesh) -> None:
    await join(mesh, "bob", mesh.town.invite("ada"))
    async with as_member(mesh, "ada") as ada, as_member(mesh, "bob") as bob:
        key = mesh.town.entry("ada", "key", key_body(mesh.town.state))
        assert (await ada.append(mesh.town.state.n, key))["appended"]
        mesh.grow(key)
        sent = await bob.send(make_send("c1", "dm", key_of("ada")))
        assert isinstance(sent, Accepted)
        remove, next_key = mesh.removal("ada", "bob")
        assert (await ada.append(mesh.town.state.n, remove, next_key))["appended"]
        assert await bob.closed_with() == ENDED
        assert isinstance(bob.heard[-1], ErrorFrame)
        mesh.grow(remove, next_key)
        assert is_known(mesh, await ada.head())
    assert await refused(mesh, "bob") == ("MEMBERSHIP_ENDED", ENDED)


async def test_members_send_to_each_other_as_in_every_mesh(mesh: RosterMesh) -> None:
    await join(mesh, "bob", mesh.town.invite("ada"))
    async with as_member(mesh, "ada") as ada, as_member(mesh, "bob") as bob:
        assert isinstance(await ada.send(make_send("c1", "dm", key_of("bob"))), Accepted)
        push = await bob.take()
        assert (push.message.sender_id, push.message.sender_name) == (mesh.town.ids["ada"], "ada")


async def test_a_stranger_is_refused_whatever_it_shows(mesh: RosterMesh) -> None:
    town = mesh.town
    town.seeds["eve"] = seed_of("eve")
    invite = town.invite("ada")
    assert await refused(mesh, "eve") == ("HELLO_REFUSED", HELLO), "without an invite"
    assert await refused(mesh, "eve", member_id=town.ids["ada"]) == ("HELLO_REFUSED", HELLO)
    stolen = {**town.secrets, invite.id: seed_of("a guess")}
    known, town.secrets = town.secrets, stolen
    assert await refused(mesh, "eve", invite=invite) == ("HELLO_REFUSED", HELLO), "who only saw an invite"
    town.secrets = known
    more = replace(invite, uses=99, role="owner")
    assert await refused(mesh, "eve", invite=more) == ("INVITE_REFUSED", HELLO), "an invite made better"
    revoke = town.entry("ada", "revoke_invite", entries.RevokeInvite(invite))
    async with as_joiner(mesh, "eve", invite) as eve:
        async with as_member(mesh, "ada") as ada:
            assert (await ada.append(town.state.n, revoke))["appended"]
        mesh.grow(revoke)
        join_entry = town.joining("eve", invite)
        assert await problem(eve, "roster_append", after=town.state.n, entries=texts([join_entry])) == "ROSTER_REFUSED"
        assert await problem(eve, "peers") == "NOT_ALLOWED"
    assert await refused(mesh, "eve", invite=invite) == ("INVITE_REFUSED", HELLO), "one that was revoked"
    await join(mesh, "eve", town.invite("ada"))


async def test_a_hello_is_good_for_one_connection_and_one_mesh(mesh: RosterMesh) -> None:
    assert await refused(mesh, "ada", fingerprint="0" * 64) == ("HELLO_REFUSED", HELLO)
    assert await refused(mesh, "ada", mesh_id="mesh_nothing") == ("HELLO_REFUSED", HELLO)
    async with challenged(mesh.process) as (first, challenge), challenged(mesh.process) as (second, _):
        hello = mesh.hello("ada", challenge)
        await second.say(hello)
        assert await second.closed_with() == HELLO
        await first.say(hello)
        await first.say(hello)
        assert await first.closed_with() == PROTOCOL_ERROR


async def test_a_daemon_that_knows_no_rosters_is_told_to_upgrade(mesh: RosterMesh) -> None:
    async with challenged(mesh.process) as (peer, challenge):
        assert (challenge.protocol, challenge.newest) == (1, 2)
        values: dict[str, Any] = {
            "mesh_id": mesh.mesh_id,
            "member_id": mesh.town.ids["ada"],
            "pubkey": key_of("ada"),
            "signature": "0" * 128,
            "instance_id": "i1",
        }
        said = hello_bytes(nonce=challenge.nonce, broker_id=challenge.broker_id, hello=Hello(**values))
        await peer.say(Hello(**{**values, "signature": sealing.sign(seed_of("ada"), said).hex()}))
        error = await peer.hear(ErrorFrame)
        assert (error.problem.code, await peer.closed_with()) == ("UPGRADE_NEEDED", UPGRADE)


async def test_a_joiner_says_nothing_but_what_joining_takes(mesh: RosterMesh) -> None:
    mesh.town.seeds["bob"] = seed_of("bob")
    async with as_joiner(mesh, "bob", mesh.town.invite("ada")) as bob:
        await bob.say(make_send("c1", "dm", key_of("ada")))
        assert await bob.closed_with() == PROTOCOL_ERROR


async def test_what_was_appended_outlives_the_broker(tmp_path: Path, postgresql: Server) -> None:
    for place, options in (("file", ()), ("database", ("--store", postgresql.new_url()))):
        folder = tmp_path / place
        with broker(folder, *options) as process:
            mesh = RosterMesh(process)
            assert mesh.found().status_code == 201
            await join(mesh, "bob", mesh.town.invite("ada"))
            process.kill()
        with broker(folder, *options) as process:
            mesh.process = process
            async with as_member(mesh, "bob") as bob:
                assert (await bob.request("roster_read"))["entries"] == texts(mesh.town.log)
                assert is_known(mesh, bob.welcome.roster.head)
            rename = mesh.town.entry("ada", "rename", entries.Rename("ann"))
            async with as_member(mesh, "ada") as ada:
                assert (await ada.append(mesh.town.state.n, rename))["appended"]
            assert process.stop() == 0


@pytest.mark.parametrize(("dies", "kept"), [(DIES_BEFORE_COMMIT, False), (DIES_BEFORE_ANSWER, True)])
async def test_an_append_that_a_killed_broker_did_not_answer_is_repeated_and_there_once(
    tmp_path: Path, dies: str, kept: bool
) -> None:
    folder = tmp_path / "broker"
    with broker(folder) as process:
        mesh = RosterMesh(process)
        assert mesh.found().status_code == 201
        process.kill()
    rename = mesh.town.entry("ada", "rename", entries.Rename("ann"))
    with broker(folder, before=dies) as process:
        mesh.process = process
        async with as_member(mesh, "ada") as ada:
            await ada.say(Request(1, "roster_append", {"after": 1, "entries": texts([rename])}))
            await ada.closed_with()
        assert process.popen.wait(SECONDS) == DEAD
    with broker(folder) as process:
        mesh.process = process
        async with as_member(mesh, "ada") as ada:
            found = (await ada.request("roster_read"))["entries"]
            assert found == texts([*mesh.town.log, rename] if kept else mesh.town.log)
            assert (await ada.append(1, rename))["appended"]
            assert (await ada.request("roster_read"))["entries"] == texts([*mesh.town.log, rename])
            mesh.grow(rename)
            assert is_known(mesh, await ada.head())


async def test_two_brokers_on_one_database_carry_one_roster(tmp_path: Path, postgresql: Server) -> None:
    store = ("--store", postgresql.new_url())
    with broker(tmp_path / "one", *store) as one, broker(tmp_path / "two", *store) as two:
        mesh = RosterMesh(one)
        assert mesh.found().status_code == 201
        for name in ("bob", "cid"):
            await join(mesh, name, mesh.town.invite("ada"))
        async with as_member(mesh, "ada") as ada:
            mesh.process = two
            async with as_member(mesh, "bob") as bob, as_member(mesh, "cid") as cid:
                assert is_known(mesh, bob.welcome.roster.head)
                remove, key = mesh.removal("ada", "bob")
                answer = await ada.append(mesh.town.state.n, remove, key)
                assert answer["appended"]
                assert await bob.closed_with() == ENDED, "at the other broker"
                while (notice := await cid.hear(Notice)).name != "roster_head":
                    pass
                assert notice.data == answer["head"]
                mesh.grow(remove, key)
                assert (await cid.request("roster_read"))["entries"] == texts(mesh.town.log)


async def test_a_restored_broker_is_told_what_it_lost_and_goes_on_when_an_owner_says_so(tmp_path: Path) -> None:
    folder, copy = tmp_path / "broker", tmp_path / "copy.bak"

    def parley(*words: str) -> None:
        argv = [sys.executable, "-P", "-m", "parley", "broker", *words, "--folder", str(folder)]
        subprocess.run(argv, capture_output=True, check=True)

    with broker(folder) as process:
        mesh = RosterMesh(process)
        assert mesh.found().status_code == 201
        await join(mesh, "bob", mesh.town.invite("ada"))
        parley("backup", str(copy))
        remove, key = mesh.removal("ada", "bob")
        async with as_member(mesh, "ada") as ada:
            newest = Head(**(await ada.append(2, remove, key))["head"])
        mesh.grow(remove, key)
        assert process.stop() == 0
    parley("restore", str(copy), "--force")
    with broker(folder) as process:
        mesh.process = process
        joiner = mesh.town.invite("ada")
        mesh.town.seeds["eve"] = seed_of("eve")
        assert await refused(mesh, "eve", invite=joiner) == ("ROSTER_RESTORING", FAILED)
        async with as_member(mesh, "bob", head=newest) as bob:
            assert (bob.welcome.roster.restoring, bob.welcome.roster.told) == (True, newest)
            rename = mesh.town.entry("bob", "rename", entries.Rename("rob"))
            assert await problem(bob, "roster_append", after=2, entries=texts([rename])) == "ROSTER_RESTORING"
        async with as_member(mesh, "ada") as ada:
            assert ada.welcome.roster.told == newest
            lost = {"after": 2, "entries": texts([remove, key]), "confirmed": newest.hash}
            assert (await ada.request("roster_confirm", **lost))["restoring"] is False
            assert is_known(mesh, await ada.head())
        assert await refused(mesh, "bob") == ("MEMBERSHIP_ENDED", ENDED)


def test_the_check_judges_every_roster(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    with broker(folder) as process:
        assert RosterMesh(process).found().status_code == 201
        assert process.stop() == 0
    argv = [sys.executable, "-P", "-m", "parley", "broker", "check", "--folder", str(folder), "--json"]
    sound = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (sound.returncode, json.loads(sound.stdout)["broken_rosters"]) == (0, {})
    with closing(apsw.Connection(str(folder / "broker.db"))) as connection:
        connection.execute("UPDATE member SET role = 'member'")
    found = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (found.returncode, json.loads(found.stdout)["broken_rosters"]) == (5, {"red": 1})
    said = subprocess.run(argv[:-1], capture_output=True, text=True, check=False)
    assert "The roster of red does not hold from entry 1 on." in said.stdout


async def test_what_was_sealed_under_a_key_that_is_over_is_refused_without_a_trace_of_its_id(mesh: RosterMesh) -> None:
    await join(mesh, "bob", mesh.town.invite("ada"))
    async with as_member(mesh, "ada") as ada, as_member(mesh, "bob") as bob:
        for _ in range(2):
            key = mesh.town.entry("ada", "key", key_body(mesh.town.state))
            assert (await ada.append(mesh.town.state.n, key))["appended"]
            mesh.grow(key)
        refusal = await ada.send(make_send("c1", "queue", "*", key_epoch=1))
        assert isinstance(refusal, RefusedSend)
        assert (refusal.problem.code, refusal.problem.transient) == ("KEY_EPOCH_OVER", True)
        assert isinstance(await ada.send(make_send("c1", "queue", "*", body=b"other", key_epoch=2)), Accepted)
        assert isinstance(await ada.send(make_send("c1", "queue", "*", body=b"other", key_epoch=2)), Accepted)
        assert (await bob.take()).message.key_epoch == 2


async def test_a_direct_message_goes_to_a_members_id_whatever_its_key_is(mesh: RosterMesh) -> None:
    await join(mesh, "bob", mesh.town.invite("ada"))
    async with as_member(mesh, "ada") as ada, as_member(mesh, "bob") as bob:
        assert isinstance(await ada.send(make_send("c1", "dm", mesh.town.ids["bob"])), Accepted)
        assert (await bob.take()).message.ref == mesh.town.ids["bob"]
        refusal = await ada.send(make_send("c2", "dm", "mem_nobody"))
        assert isinstance(refusal, RefusedSend)
        assert refusal.problem.code == "NO_SUCH_DESTINATION"
