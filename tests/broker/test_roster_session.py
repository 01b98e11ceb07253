"""Connections of a mesh with a roster, driven by hand: how members and joiners are greeted, and what each may say."""

from typing import Any

import pytest

from parley.broker.policy import DEFAULT_POLICY
from parley.broker.rules.roster_restore import mark_restored
from parley.broker.session import ENDED, FAILED, HELLO, PROTOCOL_ERROR, SILENT, UPGRADE
from parley.broker.sqlite_store import SqliteStore
from parley.core.clock import ManualClock
from parley.core.errors import InvalidInput
from parley.core.roster import Invite, entries
from parley.wire.broker import ErrorFrame, Features, Negotiate, Notice, Ping, Pong, RosterWelcome
from tests.broker.driven_mesh import REQUIRED, DrivenMesh, Line
from tests.broker.driven_mesh import signed_hello as old_hello
from tests.broker.roster_peers import signed_hello
from tests.conformance.broker.circle import make_send
from tests.conformance.broker.rostered import Rostered, texts
from tests.core.roster.town import key_of, seed_of


@pytest.fixture
def mesh(store: SqliteStore, clock: ManualClock) -> Rostered:
    return Rostered(store, clock, "rostered")


def greeted(driven: DrivenMesh, mesh: Rostered, name: str, **changes: Any) -> Line:
    line = driven.connect()
    line.say(signed_hello(mesh.town, mesh.mesh_id, name, line.challenge, **changes))
    return line


def ready(driven: DrivenMesh, mesh: Rostered, name: str) -> Line:
    line = greeted(driven, mesh, name)
    line.say(Negotiate(REQUIRED))
    assert line.last(Features).missing_required == []
    return line


def bearer(driven: DrivenMesh, mesh: Rostered, name: str, invite: Invite, **changes: Any) -> Line:
    mesh.town.seeds.setdefault(name, seed_of(name))
    return greeted(driven, mesh, name, member_id=None, invite=invite, **changes)


def code(line: Line) -> tuple[str, int | None]:
    return line.last(ErrorFrame).problem.code, line.closed


def test_a_member_is_welcomed_with_the_head_and_told_of_the_next_one(driven: DrivenMesh, mesh: Rostered) -> None:
    mesh.join("bob")
    ada, bob = ready(driven, mesh, "ada"), ready(driven, mesh, "bob")
    welcome = bob.last(RosterWelcome)
    assert (welcome.display_name, welcome.role, welcome.roster.head) == ("bob", "member", mesh.kept().head)
    rename = mesh.town.entry("ada", "rename", entries.Rename("ann"))
    answer = ada.result("roster_append", after=mesh.town.state.n, entries=texts([rename]))
    mesh.town.offer(rename)
    notice = [each for each in bob.all(Notice) if each.name == "roster_head"][-1]
    assert notice.data == answer["head"]
    remove = mesh.town.entry("ada", "remove", mesh.town.of("bob"))
    ada.result("roster_append", after=mesh.town.state.n, entries=texts([remove]))
    assert code(bob) == ("MEMBERSHIP_ENDED", ENDED)


def test_a_joiner_reads_and_joins_and_is_not_hurried(driven: DrivenMesh, mesh: Rostered) -> None:
    invite = mesh.town.invite("ada")
    bob = bearer(driven, mesh, "bob", invite)
    assert bob.last(RosterWelcome).member_id == ""
    driven.tick(DEFAULT_POLICY.ready_ms / 1000 + 1)
    bob.say(Ping(7))
    assert bob.last(Pong).id == 7
    bob.perform(bob.session.on_unreadable(InvalidInput("newer than this broker"), driven.now))
    assert bob.closed is None
    assert bob.result("roster_read")["entries"] == texts(mesh.town.log)
    mesh.town.now = mesh.clock.now_ms()
    data = mesh.town.joining("bob", invite)
    assert bob.result("roster_append", after=1, entries=texts([data]))["appended"]
    assert bob.code("peers") == "NOT_ALLOWED"
    bob.say(make_send(ref=key_of("ada")))
    assert bob.closed == PROTOCOL_ERROR
    assert mesh.all("SELECT count(*) FROM connection WHERE mesh_id = ?", mesh.mesh_id) == [(0,)]


def test_a_joiner_that_falls_silent_is_closed(driven: DrivenMesh, mesh: Rostered) -> None:
    bob = bearer(driven, mesh, "bob", mesh.town.invite("ada"))
    driven.tick(DEFAULT_POLICY.silence_ms / 1000)
    assert bob.closed == SILENT


def test_a_joiner_that_is_gone_before_it_is_greeted_leaves_nothing_behind(driven: DrivenMesh, mesh: Rostered) -> None:
    line = driven.connect()
    mesh.town.seeds["bob"] = seed_of("bob")
    line.held = []
    invite = mesh.town.invite("ada")
    line.say(signed_hello(mesh.town, mesh.mesh_id, "bob", line.challenge, member_id=None, invite=invite))
    line.hang_up()
    line.settle()
    assert line.all(RosterWelcome) == []


def test_who_may_not_join_is_not_greeted(driven: DrivenMesh, mesh: Rostered, store: SqliteStore) -> None:
    invite = mesh.town.invite("ada", uses=1)
    mesh.town.seeds["eve"] = seed_of("eve")
    assert code(greeted(driven, mesh, "eve")) == ("HELLO_REFUSED", HELLO)
    mesh.join("bob", invite)
    assert code(bearer(driven, mesh, "eve", invite)) == ("INVITE_REFUSED", HELLO)
    assert bearer(driven, mesh, "bob", invite).closed is None, "whose answer may have been lost"
    store.call(mark_restored)
    assert code(bearer(driven, mesh, "eve", mesh.town.invite("ada"))) == ("ROSTER_RESTORING", FAILED)


def test_a_hello_is_for_one_roster_and_a_mesh_that_has_one(driven: DrivenMesh, mesh: Rostered) -> None:
    assert code(greeted(driven, mesh, "ada", fingerprint="0" * 64)) == ("HELLO_REFUSED", HELLO)
    assert code(greeted(driven, mesh, "ada", mesh_id=driven.mesh_id)) == ("HELLO_REFUSED", HELLO)
    assert code(greeted(driven, mesh, "ada", mesh_id="mesh_nothing")) == ("HELLO_REFUSED", HELLO)
    assert code(greeted(driven, mesh, "ada", member_id="mem_nobody")) == ("HELLO_REFUSED", HELLO)
    assert greeted(driven, mesh, "ada").closed is None, "the control"


def test_a_hello_of_version_1_is_told_to_upgrade_if_it_is_a_members(driven: DrivenMesh, mesh: Rostered) -> None:
    (row,) = mesh.all("SELECT member_id FROM member WHERE mesh_id = ?", mesh.mesh_id)
    member = driven.ann._replace(mesh_id=mesh.mesh_id, member_id=row[0], pubkey=key_of("ada"), display_name="ada")
    line = driven.connect()
    line.say(old_hello(member, line.challenge))
    assert code(line) == ("UPGRADE_NEEDED", UPGRADE)
    stranger = driven.connect()
    stranger.say(old_hello(member._replace(member_id="mem_nobody"), stranger.challenge))
    assert code(stranger) == ("HELLO_REFUSED", HELLO)
