"""What a member sees to without being asked, and when a broker has had the time to serve what it has signed."""

from typing import Any

import pytest

from parley.core.roster import entries
from parley.core.roster.heads import Head, sign_head
from parley.daemon.rosters import acts
from parley.daemon.rosters.errands import append, catch_up
from parley.daemon.rosters.standing import (
    CONFIRM_SECONDS,
    EPHEMERAL_MS,
    EXPIRED_SECONDS,
    LOOK_SECONDS,
    OWED_SECONDS,
    RENEW_MS,
    SERVED_SECONDS,
    Shown,
    Standing,
    duties,
    standing_of,
)
from parley.wire.rosters import RosterStanding
from tests.conformance.broker.rostered import BROKER_SEED, Rostered
from tests.daemon.rosters.holder import Holder, keys_of

NOW = 1_000.0


def holder(mesh: Rostered, name: str = "ada") -> Holder:
    made = Holder(mesh, name)
    made.run(catch_up(made.copy))
    made.held = [keys_of(1)]
    return made


def opened(mesh: Rostered, now: float = NOW, **changes: Any) -> Standing:
    """A connection to the broker as it is."""
    made = Standing()
    made.opened(RosterStanding(mesh.town.state.fingerprint, mesh.kept().head, **changes), now)
    return made


def ahead(mesh: Rostered) -> Head:
    return sign_head(99, "ab" * 32, fingerprint=mesh.town.state.fingerprint, seed=BROKER_SEED)


def said(found: Holder, standing: Standing, now: float) -> list[str]:
    """The kinds of the entries that the member has to append now; they are appended."""
    kinds: list[str] = []
    for act in duties(found.copy, found.me, standing, now):
        kinds += [step.entry.kind for step in found.run(append(found.copy, act, found.me))]
    return kinds


def test_a_broker_has_a_minute_of_connection_to_serve_what_it_has_signed(mesh: Rostered) -> None:
    ada, standing = holder(mesh), opened(mesh)
    ada.copy.hear(ahead(mesh))
    standing.owes(NOW + 5)
    standing.served(ada.copy, mesh.kept().head, NOW + 5 + SERVED_SECONDS - 1)
    assert ada.copy.marks.split is None
    assert standing.look_again_in(NOW) == LOOK_SECONDS
    standing.opened(RosterStanding(ada.copy.fingerprint, mesh.kept().head), NOW + 60)
    standing.served(ada.copy, mesh.kept().head, NOW + 66)
    assert ada.copy.marks.split is None, "the minute begins anew with a connection"
    standing.served(ada.copy, mesh.kept().head, NOW + 66 + SERVED_SECONDS)
    assert ada.copy.marks.split == ahead(mesh)


def test_the_minute_stands_still_while_the_broker_is_being_restored(mesh: Rostered) -> None:
    ada, standing = holder(mesh), opened(mesh, restoring=True)
    ada.copy.hear(ahead(mesh))
    standing.owes(NOW)
    standing.served(ada.copy, mesh.kept().head, NOW + 10 * SERVED_SECONDS)
    assert ada.copy.marks.split is None
    standing.restored()
    standing.served(ada.copy, mesh.kept().head, NOW + 10 * SERVED_SECONDS + 1)
    assert ada.copy.marks.split is None
    standing.served(ada.copy, mesh.kept().head, NOW + 11 * SERVED_SECONDS + 1)
    assert ada.copy.marks.split == ahead(mesh)


def test_a_broker_that_shows_less_than_it_has_signed_for_this_member_is_found_out(mesh: Rostered) -> None:
    older = mesh.kept().head
    mesh.do("ada", "rename", entries.Rename("ann"))
    ada, standing = holder(mesh), opened(mesh)
    standing.served(ada.copy, older, NOW)
    standing.served(ada.copy, older, NOW + SERVED_SECONDS)
    assert ada.copy.marks.split == mesh.kept().head


def test_what_was_served_in_time_is_no_split(mesh: Rostered) -> None:
    ada, standing = holder(mesh), opened(mesh)
    mesh.do("ada", "rename", entries.Rename("ann"))
    ada.copy.hear(mesh.kept().head)
    standing.owes(NOW)
    ada.run(catch_up(ada.copy))
    standing.served(ada.copy, mesh.kept().head, NOW + 2 * SERVED_SECONDS)
    assert ada.copy.marks.split is None


def test_an_owner_confirms_a_restored_roster_once_others_had_time_and_nobody_has_seen_more(mesh: Rostered) -> None:
    mesh.join("bob")
    ada, end, me = holder(mesh), mesh.kept().head, mesh.town.ids["ada"]
    standing = opened(mesh, restoring=True)
    assert standing.to_be_confirmed(ada.copy, me, NOW + CONFIRM_SECONDS - 1) is None
    assert standing.to_be_confirmed(ada.copy, me, NOW + CONFIRM_SECONDS) == end
    bob = mesh.town.ids["bob"]
    assert standing.to_be_confirmed(ada.copy, bob, NOW + CONFIRM_SECONDS) is None, "no owner"
    told = opened(mesh, restoring=True, told=ahead(mesh))
    assert told.to_be_confirmed(ada.copy, me, NOW + CONFIRM_SECONDS) is None
    assert opened(mesh).to_be_confirmed(ada.copy, me, NOW + CONFIRM_SECONDS) is None, "it is not being restored"


def test_several_who_leave_cost_one_key_and_a_compromised_one_is_replaced_at_once(mesh: Rostered) -> None:
    for name in ("bob", "cid"):
        mesh.join(name)
    mesh.do("bob", "leave", entries.Leave())
    mesh.pass_time(60)
    ada, standing = holder(mesh), opened(mesh)
    assert said(ada, standing, NOW) == []
    mesh.do("cid", "leave", entries.Leave())
    ada.run(catch_up(ada.copy))
    assert said(ada, standing, NOW + OWED_SECONDS - 1) == []
    assert said(ada, standing, NOW + OWED_SECONDS) == ["key"]
    ada.run(append(ada.copy, acts.rotate(b"\x09" * 32, compromised=True), ada.me))
    mesh.town.seeds["ada"] = b"\x09" * 32
    assert said(ada, standing, NOW + OWED_SECONDS + 1) == ["key"]


def test_a_plain_member_makes_no_key(mesh: Rostered) -> None:
    for name in ("bob", "cid"):
        mesh.join(name)
    mesh.do("bob", "leave", entries.Leave())
    cid, standing = holder(mesh, "cid"), opened(mesh)
    assert said(cid, standing, NOW) == []
    assert said(cid, standing, NOW + 2 * OWED_SECONDS) == []


def test_an_admin_whom_nobody_gives_the_key_makes_the_next_after_ten_minutes(mesh: Rostered) -> None:
    ada, standing = holder(mesh), opened(mesh)
    ada.held = []
    assert said(ada, standing, NOW) == []
    assert said(ada, standing, NOW + OWED_SECONDS) == ["key"]
    assert ada.copy.state is not None
    assert ada.copy.state.epoch == 2
    assert said(ada, standing, NOW + 2 * OWED_SECONDS) == []


def test_whose_time_is_over_is_said_by_an_admin_and_by_others_only_when_none_does(mesh: Rostered) -> None:
    mesh.join("bob")
    until = mesh.clock.now_ms() + 60_000
    invite = mesh.town.invite("ada")
    mesh.offer("dan", mesh.town.joining("dan", invite, until=until))
    bob, ada = holder(mesh, "bob"), holder(mesh)
    standing = opened(mesh)
    assert said(ada, standing, NOW) == []
    mesh.pass_time(120)
    later = opened(mesh)
    assert said(bob, later, NOW) == []
    assert said(bob, later, NOW + EXPIRED_SECONDS) == ["expire"]
    ada.run(catch_up(ada.copy))
    assert said(ada, standing, NOW) == []


def test_an_admin_says_at_once_whose_time_is_over(mesh: Rostered) -> None:
    until = mesh.clock.now_ms() + 60_000
    mesh.offer("dan", mesh.town.joining("dan", mesh.town.invite("ada"), until=until))
    mesh.pass_time(120)
    assert said(holder(mesh), opened(mesh), NOW) == ["expire"]


def test_an_ephemeral_member_renews_itself_in_time(mesh: Rostered) -> None:
    until = mesh.clock.now_ms() + RENEW_MS + 60_000
    mesh.offer("dan", mesh.town.joining("dan", mesh.town.invite("ada"), until=until))
    mesh.town.ids["dan"] = mesh.town.state.names["dan"]
    dan = holder(mesh, "dan")
    assert said(dan, opened(mesh), NOW) == []
    mesh.pass_time(120)
    assert said(dan, opened(mesh), NOW) == ["renew"]
    assert dan.copy.state is not None
    assert dan.copy.state.members[dan.me.member_id].until == mesh.clock.now_ms() + EPHEMERAL_MS


@pytest.mark.parametrize("trouble", ["split", "restoring"])
def test_nothing_is_said_in_a_roster_that_is_split_or_being_restored(mesh: Rostered, trouble: str) -> None:
    ada = holder(mesh)
    ada.held = []
    standing = opened(mesh, restoring=trouble == "restoring")
    if trouble == "split":
        ada.copy.declare_split(ahead(mesh))
    assert said(ada, standing, NOW) == []
    assert said(ada, standing, NOW + 2 * OWED_SECONDS) == []


def test_people_are_told_of_what_has_changed_and_only_then(mesh: Rostered) -> None:
    ada, standing = holder(mesh), opened(mesh)
    me = ada.me.member_id
    assert standing.news(standing_of(ada.copy, me, ada.held)) == {}
    mesh.join("bob")
    ada.run(catch_up(ada.copy))
    alone = Shown(split=False, key_owed=False, single_owner=True, upgrade_needed=False)
    assert standing_of(ada.copy, me, ada.held) == alone
    assert standing.news(alone) == alone._asdict()
    assert standing.news(alone) == {}
    assert standing_of(ada.copy, me, []).key_owed, "it has not arrived here"
    ada.copy.declare_split(ahead(mesh))
    assert standing_of(ada.copy, me, ada.held).split
