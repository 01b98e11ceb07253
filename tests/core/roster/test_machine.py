"""Rosters that grow at random, by members who may and who may not: what must hold of each, whatever is asked of it."""

from typing import Any

import msgspec
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from parley.core.roster import (
    Member,
    Refusal,
    State,
    apply,
    apply_all,
    entries,
    outranks,
    read_entry,
    rules,
    state_hash,
)
from parley.core.roster.authoring import next_entry
from parley.core.roster.state import RANK
from tests.core.roster.town import DAY_MS, Town, key_body, key_of, seed_of

NAMES = ("ada", "bob", "carl", "dora", "eve")
ROLES: tuple[entries.Role, ...] = ("member", "admin", "owner")
names = st.sampled_from(NAMES)
who = st.integers(0, 59)
"""Somebody who is or was in the mesh, whoever that is by then."""
roles = st.sampled_from(ROLES)


class Rosters(RuleBasedStateMachine):
    """Everybody tries everything; what is refused must have changed nothing, what is taken must be allowed."""

    @initialize()
    def begin(self) -> None:
        self.town = Town()
        self.seen = [self.town.state]

    def name(self, number: int) -> str:
        return list(self.town.ids)[number % len(self.town.ids)]

    def tries(self, author: int, kind: entries.Kind, body: entries.Body, *, at: int | None = None) -> None:
        self.offers(self.town.entry(self.name(author), kind, body, at=at))

    def offers(self, data: bytes) -> None:
        before, digest = self.town.state, state_hash(self.town.state)
        refusal = self.town.offer(data)
        assert state_hash(before) == digest
        if refusal is None:
            check_step(before, self.town.state, data)
            self.seen.append(self.town.state)
            again = apply(self.town.state, data)
            assert isinstance(again, Refusal)
        else:
            assert self.town.state is before

    @rule(name=names, issuer=who, role=roles, uses=st.integers(1, 2), ephemeral=st.booleans())
    def join(self, name: str, issuer: int, role: entries.Role, uses: int, ephemeral: bool) -> None:
        invite = self.town.invite(self.name(issuer), role=role, uses=uses)
        self.joins(name, invite, until=self.town.now + DAY_MS if ephemeral else None)

    @rule(name=names, which=who)
    def join_by_an_older_invite(self, name: str, which: int) -> None:
        used = [read_entry(each).body for each in self.town.log]
        invites = [each.invite for each in used if isinstance(each, entries.Join)]
        if invites:
            self.joins(name, invites[which % len(invites)])

    def joins(self, name: str, invite: entries.Invite, until: int | None = None) -> None:
        seed = self.town.seeds.get(name, seed_of(name))
        self.offers(self.town.joining(name, invite, until=until, seed=seed))
        if name in self.town.state.names:
            self.town.ids[name] = self.town.state.names[name]

    @rule(author=who, kind=st.sampled_from(("remove", "ban", "unban")), other=who)
    def decides(self, author: int, kind: Any, other: int) -> None:
        self.tries(author, kind, self.town.of(self.name(other)))

    @rule(author=who, other=who, role=roles)
    def give_a_role(self, author: int, other: int, role: entries.Role) -> None:
        self.tries(author, "role", entries.SetRole(self.town.ids[self.name(other)], role))

    @rule(author=who, compromised=st.booleans())
    def rotate(self, author: int, compromised: bool) -> None:
        before = self.town.state
        self.town.rotate(self.name(author), compromised=compromised)
        if self.town.state is not before:
            check_step(before, self.town.state, self.town.log[-1])

    @rule(author=who)
    def make_a_key(self, author: int) -> None:
        self.tries(author, "key", key_body(self.town.state))

    @rule(author=who, name=names)
    def rename(self, author: int, name: str) -> None:
        self.tries(author, "rename", entries.Rename(name))

    @rule(author=who)
    def leave(self, author: int) -> None:
        self.tries(author, "leave", entries.Leave())

    @rule(author=who, days=st.integers(0, 31))
    def expire(self, author: int, days: int) -> None:
        over = sorted(each.id for each in self.town.state.active() if each.until is not None)
        if over:
            self.tries(author, "expire", entries.Expire(over), at=self.town.now + days * DAY_MS)

    @rule(author=who, issuer=who)
    def take_an_invite_back(self, author: int, issuer: int) -> None:
        self.tries(author, "revoke_invite", entries.RevokeInvite(self.town.invite(self.name(issuer))))

    @rule(author=who, other=who)
    def speak_for_somebody_else(self, author: int, other: int) -> None:
        """An entry in another's name, signed with one's own key."""
        town, one, another = self.town, self.name(author), self.name(other)
        if town.seeds[one] != town.seeds[another]:
            said = {"by": town.ids[another], "seed": town.seeds[one], "at": town.now}
            self.refused(next_entry(town.state, "leave", entries.Leave(), **said))

    def refused(self, data: bytes) -> None:
        assert isinstance(apply(self.town.state, data), Refusal)

    @invariant()
    def holds(self) -> None:
        state = self.town.state
        active = [each for each in state.members.values() if each.is_active]
        assert {each.name: each.id for each in active} == state.names
        assert len({each.key for each in active}) == len(active)
        assert not active or any(each.role == "owner" for each in active)
        assert all(state.keys[each.key] == each.id for each in active)
        banned = {each.key for each in state.members.values() if each.status == "banned"}
        assert not banned & {each.key for each in active}

    def teardown(self) -> None:
        if hasattr(self, "town"):
            state = self.town.state
            assert apply_all(None, self.town.log) == state
            kept = msgspec.json.decode(msgspec.json.encode(state), type=State)
            assert (kept, state_hash(kept)) == (state, state_hash(state))
            assert len({state_hash(each) for each in self.seen}) == len(self.seen)


def check_step(before: State, after: State, data: bytes) -> None:
    """Whether the author of an entry might do what it did, told from the two states alone."""
    entry = read_entry(data)
    author = before.members.get(entry.by)
    for member in after.members.values():
        was = before.members.get(member.id)
        if was is None:
            check_new(before, after, member)
        elif was != member:
            assert author is not None
            check_changed(author, was, member, entry.at)
    if after.epoch != before.epoch:
        assert author is not None
        assert author.role != "member"
        assert after.epoch == before.epoch + 1
    assert set(before.invites_revoked) <= set(after.invites_revoked)
    gone = {each.id for each in before.active()} - {each.id for each in after.active()}
    if gone and before.epoch:
        assert after.owed


def check_new(before: State, after: State, member: Member) -> None:
    assert member.issuer is not None
    assert member.invite is not None
    issuer = before.members[member.issuer]
    assert issuer.is_active
    assert RANK[issuer.role] >= max(RANK[member.role], RANK["admin"])
    assert member.invite not in before.invites_revoked
    assert after.invite_uses[member.invite] == before.invite_uses.get(member.invite, 0) + 1


def check_changed(author: Member, was: Member, member: Member, at: int) -> None:
    if was.key != member.key or was.name != member.name or was.until != member.until:
        assert author.id == member.id
    if was.role != member.role:
        assert RANK[member.role] <= RANK[author.role]
        assert outranks(author, was) or author.id == was.id
    if was.status != member.status:
        is_over = was.until is not None and was.until <= at and member.status == "expired"
        assert is_over or outranks(author, was) or (author.id == was.id and member.status == "left")


CHECKED = settings(max_examples=60, stateful_step_count=30, deadline=None)
SEARCHED = settings(CHECKED, max_examples=300, phases=(Phase.generate,))
"""For what is wrong for sure: the first sight of it is enough, however small it could be made."""
Rosters.TestCase.settings = CHECKED
test_rosters_hold_what_they_promise_whatever_is_asked_of_them = Rosters.TestCase


def test_of_two_entries_for_one_place_whichever_comes_first_stands() -> None:
    town = Town()
    town.join("bob")
    one = town.entry("ada", "remove", town.of("bob"))
    other = town.entry("bob", "rename", entries.Rename("robert"))
    for first, second in ((one, other), (other, one)):
        state = apply(town.state, first)
        assert isinstance(state, State)
        assert apply(state, second) == Refusal("conflict", "entry 2 does not follow entry 2")


def test_many_joins_by_one_invite_are_one_state_for_everybody() -> None:
    town = Town()
    invite = town.invite("ada", uses=1_000)
    for number in range(120):
        assert town.try_to_join(f"m{number}", invite) == ""
    assert apply_all(None, town.log) == town.state
    assert key_of("m7") in town.state.keys


@pytest.mark.parametrize(
    ("name", "weakened"),
    [
        ("_check_outranks", lambda author, member: None),
        ("_check_rank", lambda author, least: None),
        ("_check_invite", lambda state, invite, issuer, at: None),
        ("_check_joining_key", lambda state, key: None),
        ("_take_name", lambda state, member, name, at: replace(state, names={**state.names, name: member.id})),
        ("_owe", lambda state, when: state),
    ],
)
def test_a_rule_that_is_weakened_is_caught(monkeypatch: pytest.MonkeyPatch, name: str, weakened: object) -> None:
    monkeypatch.setattr(rules, name, weakened)
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(Rosters, settings=SEARCHED)
