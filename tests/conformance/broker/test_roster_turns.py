"""Several who append at once: each entry once, no gap, and everybody has a turn."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from parley.broker.roster_methods import CallAsJoiner
from parley.broker.rules import roster_turns
from parley.broker.rules.roster_check import first_misfit
from parley.broker.rules.roster_turns import PROMISE_MS, UNUSED_MS
from parley.broker.sqlite_store import SqliteStore
from parley.broker.store import BrokerStore
from parley.core.clock import ManualClock
from parley.core.roster import Invite, State, apply, entries
from parley.core.roster.authoring import join_entry, next_entry
from tests.conformance.broker.rostered import Follower, Rostered, texts
from tests.core.roster.town import key_of, seed_of

JOINERS, AT_ONCE, THREADS = 200, 8, 4


@pytest.fixture
def mesh(store: BrokerStore, clock: ManualClock) -> Rostered:
    return Rostered(store, clock)


def renaming(mesh: Rostered, by: str, name: str) -> bytes:
    return mesh.town.entry(by, "rename", entries.Rename(name))


def admit(mesh: Rostered, *names: str) -> None:
    for name in names:
        mesh.join(name)


def as_admin(mesh: Rostered, *names: str) -> None:
    for name in names:
        mesh.do("ada", "role", entries.SetRole(mesh.town.ids[name], "admin"))


def test_who_comes_too_late_is_told_what_came_before_and_has_the_next_place(mesh: Rostered) -> None:
    admit(mesh, "bob", "cid", "dan")
    late = renaming(mesh, "bob", "rob")
    place = mesh.town.state.n
    mesh.do("ada", "rename", entries.Rename("ann"))
    answer = mesh.offer("bob", late, after=place).result
    assert (answer["appended"], answer["reserved_ms"], answer["wait_ms"]) == (False, PROMISE_MS, None)
    assert answer["missing"] == texts(mesh.town.log[place + 1 :])
    other = mesh.offer("cid", renaming(mesh, "cid", "sid")).result
    assert (other["appended"], other["missing"], other["reserved_ms"]) == (False, [], None)
    assert 0 < other["wait_ms"] <= roster_turns.WAIT_MS_MAX
    mesh.do("bob", "rename", entries.Rename("rob"))
    mesh.do("cid", "rename", entries.Rename("sid"))
    assert mesh.all("SELECT author FROM roster_turn") == []


def test_a_promise_holds_for_two_seconds_and_then_counts_as_an_entry(mesh: Rostered) -> None:
    admit(mesh, "bob", "cid")
    place = mesh.town.state.n
    late = renaming(mesh, "bob", "rob")
    mesh.do("ada", "rename", entries.Rename("ann"))
    assert mesh.offer("bob", late, after=place).result["reserved_ms"] == PROMISE_MS
    mesh.pass_time(PROMISE_MS / 1000)
    mesh.do("cid", "rename", entries.Rename("sid"))
    mesh.pass_time(1)
    entry = renaming(mesh, "bob", "rob")
    assert mesh.refusal("bob", entry)[0] == "ROSTER_TOO_SOON"
    mesh.pass_time(UNUSED_MS / 1000 - 1)
    mesh.do("bob", "rename", entries.Rename("rob"))


def test_a_promise_is_not_made_longer_by_asking_again(mesh: Rostered) -> None:
    admit(mesh, "bob", "cid")
    place = mesh.town.state.n
    late = renaming(mesh, "bob", "rob")
    mesh.do("ada", "rename", entries.Rename("ann"))
    mesh.offer("bob", late, after=place)
    mesh.pass_time(1)
    assert mesh.offer("bob", late, after=place).result["reserved_ms"] == PROMISE_MS - 1_000
    mesh.pass_time(1)
    assert mesh.refusal("bob", late, after=place)[0] == "ROSTER_TOO_SOON"
    mesh.do("cid", "rename", entries.Rename("sid"))


def test_admins_come_before_members_who_wait_for_longer(mesh: Rostered) -> None:
    admit(mesh, "bob", "cid", "dan")
    as_admin(mesh, "dan")
    place = mesh.town.state.n
    stale = {name: renaming(mesh, name, f"new.{name}") for name in ("bob", "cid", "dan")}
    mesh.do("ada", "rename", entries.Rename("ann"))
    assert mesh.offer("bob", stale["bob"], after=place).result["reserved_ms"] == PROMISE_MS
    assert mesh.offer("cid", stale["cid"], after=place).result["reserved_ms"] is None
    assert mesh.offer("dan", stale["dan"], after=place).result["reserved_ms"] is None
    mesh.do("bob", "rename", entries.Rename("rob"))
    assert not mesh.offer("cid", renaming(mesh, "cid", "sid")).result["appended"]
    mesh.do("dan", "rename", entries.Rename("don"))
    mesh.do("cid", "rename", entries.Rename("sid"))


def test_those_who_went_away_hold_up_nobody_for_longer_than_two_seconds(mesh: Rostered) -> None:
    names = [f"m{number}" for number in range(5)]
    admit(mesh, *names)
    place = mesh.town.state.n
    mesh.do("ada", "rename", entries.Rename("ann"))
    for name in names[:4]:
        mesh.offer(name, renaming(mesh, name, f"new.{name}"), after=place)
    assert not mesh.offer(names[4], renaming(mesh, names[4], "late")).result["appended"]
    mesh.pass_time(PROMISE_MS / 1000)
    mesh.do(names[4], "rename", entries.Rename("late"))


def test_joiners_are_promised_every_second_place_at_most(mesh: Rostered) -> None:
    admit(mesh, "bob", "cid")
    if mesh.town.state.n % 2 == 0:
        mesh.do("ada", "rename", entries.Rename("odd"))
    assert mesh.town.state.n % 2 == 1, "the next place may be a joiner's"
    invite = mesh.town.invite("ada")
    stale = {name: mesh.town.joining(name, invite) for name in ("eve", "fay")}
    place = mesh.town.state.n - 1
    assert mesh.offer("eve", stale["eve"], after=place).result["reserved_ms"] == PROMISE_MS
    assert mesh.offer("fay", stale["fay"], after=place).result["reserved_ms"] is None
    assert not mesh.offer("bob", renaming(mesh, "bob", "rob")).result["appended"]
    mesh.join("eve", invite)
    again = mesh.offer("fay", stale["fay"], after=place).result
    assert again["reserved_ms"] is None, "this place is none of theirs, and Bob waits"
    mesh.do("bob", "rename", entries.Rename("rob"))
    assert mesh.offer("fay", stale["fay"], after=place).result["reserved_ms"] == PROMISE_MS
    mesh.join("fay", invite)


def test_joiners_who_let_a_place_go_by_one_after_the_other_hold_it_for_two_seconds_in_all(mesh: Rostered) -> None:
    admit(mesh, "bob", "cid")
    if mesh.town.state.n % 2 == 0:
        mesh.do("ada", "rename", entries.Rename("odd"))
    invite = mesh.town.invite("ada")
    stale = {name: mesh.town.joining(name, invite) for name in ("eve", "fay", "guy")}
    place = mesh.town.state.n - 1
    assert mesh.offer("eve", stale["eve"], after=place).result["reserved_ms"] == PROMISE_MS
    mesh.pass_time(PROMISE_MS / 1000)
    for name in ("fay", "eve", "guy"):
        assert mesh.offer(name, stale[name], after=place).result["reserved_ms"] is None
    mesh.do("bob", "rename", entries.Rename("rob"))


def test_joiners_who_only_wait_hold_up_no_member(mesh: Rostered) -> None:
    """Each would keep the others waiting for two seconds, and an invite may let in thousands."""
    admit(mesh, "bob", "cid")
    if mesh.town.state.n % 2:
        mesh.do("ada", "rename", entries.Rename("even"))
    invite = mesh.town.invite("ada")
    joining = {name: mesh.town.joining(name, invite) for name in ("eve", "fay")}
    place = mesh.town.state.n
    mesh.do("ada", "rename", entries.Rename("ann"))
    assert place % 2 == 0, "the next place but one may be a joiner's"
    assert mesh.offer("eve", joining["eve"], after=place).result["reserved_ms"] == PROMISE_MS
    assert mesh.offer("fay", joining["fay"], after=place).result["wait_ms"] is not None
    mesh.join("eve", invite)
    mesh.do("ada", "rename", entries.Rename("anna"))
    mesh.do("bob", "rename", entries.Rename("rob"))


def test_an_admin_who_lets_a_place_go_by_is_not_promised_it_again(mesh: Rostered) -> None:
    admit(mesh, "bob", "cid")
    as_admin(mesh, "bob")
    place = mesh.town.state.n
    late = renaming(mesh, "bob", "rob")
    mesh.do("ada", "rename", entries.Rename("ann"))
    assert mesh.offer("bob", late, after=place).result["reserved_ms"] == PROMISE_MS
    mesh.pass_time(PROMISE_MS / 1000)
    assert mesh.offer("bob", late, after=place).result["reserved_ms"] is None
    mesh.do("cid", "rename", entries.Rename("sid"))
    assert mesh.offer("bob", late, after=place).result["reserved_ms"] == PROMISE_MS


def test_a_clock_that_was_set_back_leaves_no_promise_behind(mesh: Rostered) -> None:
    admit(mesh, "bob", "cid")
    place = mesh.town.state.n
    late = renaming(mesh, "bob", "rob")
    mesh.do("ada", "rename", entries.Rename("ann"))
    assert mesh.offer("bob", late, after=place).result["reserved_ms"] == PROMISE_MS
    mesh.clock.jump(-300_000)
    mesh.do("cid", "rename", entries.Rename("sid"))


def test_a_line_that_is_full_of_joiners_has_room_for_members(mesh: Rostered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster_turns, "JOINERS_MAX", 1)
    admit(mesh, "bob")
    invite = mesh.town.invite("ada")
    stale = {name: mesh.town.joining(name, invite) for name in ("eve", "fay")}
    place, late = mesh.town.state.n, renaming(mesh, "bob", "rob")
    mesh.do("ada", "rename", entries.Rename("ann"))
    mesh.offer("eve", stale["eve"], after=place)
    assert mesh.offer("fay", stale["fay"], after=place).result["wait_ms"] is not None
    mesh.offer("bob", late, after=place)
    authors = {author for (author,) in mesh.all("SELECT author FROM roster_turn")}
    assert authors == {key_of("eve"), mesh.town.ids["bob"]}


class Joiner(Follower):
    """Somebody who joins, and signs again each time that others came first."""

    def __init__(self, mesh: Rostered, name: str, invite: Invite, state: State) -> None:
        super().__init__(mesh)
        self.name, self.state = name, state
        self._mesh, self._invite = mesh, invite
        self._waits_at = -1

    def waits(self) -> bool:
        """Whether it was told to, and nothing was appended since."""
        return self._waits_at == self._mesh.kept().n

    def tries(self, call: Callable[[CallAsJoiner], dict[str, object]]) -> bool:
        """Whether it is a member now."""
        mesh, state = self._mesh, self.state
        at = max(state.at, mesh.clock.now_ms())
        secret = mesh.town.secrets[self._invite.id]
        data = join_entry(state, self._invite, secret, name=self.name, seed=seed_of(self.name), at=at)
        params = {"after": state.n, "entries": texts([data])}
        answer = call(CallAsJoiner(mesh.mesh_id, key_of(self.name), "roster_append", params))
        missing = answer["missing"]
        assert isinstance(missing, list)
        self.read(missing)  # pyright: ignore[reportUnknownArgumentType]
        self._waits_at = -1 if answer["wait_ms"] is None else self.state.n
        return bool(answer["appended"])


def assert_each_once(mesh: Rostered, count: int) -> None:
    members = mesh.members()
    assert len(members) == count
    kept = mesh.kept()
    numbers = mesh.all("SELECT seq, n FROM mesh_log ORDER BY seq")
    assert numbers == [(n + 1, n) for n in range(kept.n + 1)]
    assert mesh.store.call(lambda tx: first_misfit(tx, mesh.mesh_id)) is None
    assert mesh.all("SELECT count(*) FROM roster_turn WHERE standing <> 'unused'") == [(0,)]


def test_two_hundred_joiners_in_a_row_all_get_in_and_nobody_is_overtaken_for_long(mesh: Rostered) -> None:
    """A dozen at a time, each of whom is heard in an order that a seed chooses."""
    chance = random.Random(20261119)
    invite = mesh.town.invite("ada", uses=JOINERS)
    coming = [f"j{number}" for number in range(JOINERS)]
    trying: list[Joiner] = []
    most, newest = 0, mesh.town.state
    while coming or trying:
        while coming and len(trying) < AT_ONCE:
            trying.append(Joiner(mesh, coming.pop(), invite, newest))
        joiner = chance.choice([each for each in trying if not each.waits()] or trying)
        if joiner.tries(lambda rule: mesh.store.call(rule).result):
            trying.remove(joiner)
            most, newest = max(most, joiner.behind), joiner.state
    assert_each_once(mesh, JOINERS + 1)
    assert most <= 4 * AT_ONCE


def test_an_admin_gets_in_between_joiners_at_its_second_try(mesh: Rostered) -> None:
    invite = mesh.town.invite("ada", uses=100)
    crowd = [Joiner(mesh, f"j{number}", invite, mesh.town.state) for number in range(20)]
    admin = Follower(mesh)
    rounds = 0
    for number in range(5):
        for _ in range(3):
            for joiner in [each for each in crowd if each.name not in mesh.members()]:
                joiner.tries(lambda rule: mesh.store.call(rule).result)
        for attempt in range(1, 4):
            state = admin.state
            body = entries.Rename(f"ada{number}")
            at = max(state.at, mesh.clock.now_ms())
            entry = next_entry(state, "rename", body, by=mesh.town.ids["ada"], seed=seed_of("ada"), at=at)
            answer = mesh.call("ada", "roster_append", after=state.n, entries=texts([entry])).result
            admin.read(answer["missing"])
            if answer["appended"]:
                after = apply(admin.state, entry)
                assert isinstance(after, State)
                admin.state, rounds = after, max(rounds, attempt)
                break
            for joiner in [each for each in crowd if each.name not in mesh.members()]:
                joiner.tries(lambda rule: mesh.store.call(rule).result)
    assert rounds in (1, 2, 3)


def test_many_at_once_append_each_entry_once_and_leave_no_gap(mesh: Rostered) -> None:
    """On threads: the database's locks decide. A file has one writer, whom the broker makes others wait for."""
    invite = mesh.town.invite("ada", uses=JOINERS)
    lock = threading.Lock() if isinstance(mesh.store, SqliteStore) else nullcontext()
    start = mesh.town.state

    def call(rule: CallAsJoiner) -> dict[str, object]:
        with lock:
            return mesh.store.call(rule).result

    def join_some(side: int) -> None:
        for number in range(10):
            joiner = Joiner(mesh, f"s{side}j{number}", invite, start)
            while not joiner.tries(call):
                pass

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(join_some, range(THREADS)))
    assert_each_once(mesh, THREADS * 10 + 1)
