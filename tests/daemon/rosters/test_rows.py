"""A copy that is written down is the same at the next start; what does not add up is read from the broker again."""

from collections.abc import Sequence

import apsw
import pytest

from parley.core.roster import Refusal, Step, entries, follow
from parley.core.roster.heads import Head
from parley.daemon.rosters.copy import Confirmed, Marks, RosterCopy
from parley.daemon.rosters.rows import (
    SNAPSHOT_ENTRIES,
    add_invite,
    forget_roster,
    keep_entries,
    keep_marks,
    load_copy,
    own_invites,
    read_entries,
    verified,
    verify,
)
from tests.core.roster.town import Town
from tests.daemon.world import commit

MESH = "mesh_1"
MARKS = Marks(head=Head(1, "ab" * 32, "cd" * 64), confirmed=Confirmed(1, "mem_b", 5))


def steps_of(town: Town) -> Sequence[Step]:
    steps = follow(None, town.log)
    assert not isinstance(steps, Refusal)
    return steps


def kept(outbox: apsw.Connection, town: Town) -> None:
    steps = steps_of(town)
    for part in (steps[:-2], steps[-2:]):
        commit(outbox, lambda db, part=part: keep_entries(db, MESH, part))
    commit(outbox, lambda db: keep_marks(db, MESH, MARKS))


def loaded(outbox: apsw.Connection, town: Town) -> RosterCopy:
    copy = RosterCopy(town.state.fingerprint)
    load_copy(outbox, MESH, copy)
    return copy


@pytest.fixture(scope="module")
def long_town() -> Town:
    town = Town()
    for number in range(SNAPSHOT_ENTRIES + 3):
        town.do("ada", "rename", entries.Rename(f"ada{number}"))
    return town


def test_a_copy_comes_back_as_it_was(outbox: apsw.Connection, long_town: Town) -> None:
    kept(outbox, long_town)
    copy = loaded(outbox, long_town)
    assert copy.state == long_town.state
    assert copy.marks == MARKS
    assert [copy.hash_of(n) for n in range(copy.n + 1)] == [step.entry.hash for step in steps_of(long_town)]
    assert read_entries(outbox, MESH, 5, 2) == long_town.log[5:7]
    snapshots = outbox.execute("SELECT count(*) FROM roster_snapshot WHERE n >= ?", (SNAPSHOT_ENTRIES,)).fetchall()
    assert snapshots == [(1,)]


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM roster_entry WHERE n = 2",
        "UPDATE roster_entry SET entry = x'7b7d' WHERE n = 130",
        "UPDATE roster_entry SET hash = 'ab' WHERE n = 131",
        "UPDATE roster_entry SET hash = 'ab' WHERE n = 0",
    ],
)
def test_a_copy_that_does_not_add_up_is_begun_anew(outbox: apsw.Connection, long_town: Town, damage: str) -> None:
    kept(outbox, long_town)
    commit(outbox, lambda db: db.execute(damage))
    assert loaded(outbox, long_town).n == -1


@pytest.mark.parametrize("damage", ["UPDATE roster_snapshot SET state = x'00'", "UPDATE roster_marks SET marks = '['"])
def test_what_can_be_made_anew_may_be_damaged(outbox: apsw.Connection, long_town: Town, damage: str) -> None:
    kept(outbox, long_town)
    commit(outbox, lambda db: db.execute(damage))
    assert loaded(outbox, long_town).state == long_town.state


def test_a_copy_of_another_roster_is_not_taken_up(outbox: apsw.Connection) -> None:
    kept(outbox, Town())
    assert loaded(outbox, Town("eve")).n == -1


def test_entries_give_way_to_those_of_another_branch(outbox: apsw.Connection, long_town: Town) -> None:
    kept(outbox, long_town)
    other = Town()
    other.log, other.state = long_town.log[:4], steps_of(long_town)[3].state
    other.do("ada", "rename", entries.Rename("amy"))
    commit(outbox, lambda db: keep_entries(db, MESH, steps_of(other)[4:], fork=3))
    assert loaded(outbox, other).state == other.state


def test_what_belongs_to_a_mesh_goes_with_it(outbox: apsw.Connection) -> None:
    town = Town()
    kept(outbox, town)
    invite = town.invite("ada")
    commit(outbox, lambda db: add_invite(db, MESH, invite, now_ms=1))
    commit(outbox, lambda db: verify(db, MESH, "mem_b", "ab", now_ms=2))
    assert own_invites(outbox, MESH) == [(invite, 1)]
    assert verified(outbox, MESH)["mem_b"] == ("ab", 2)
    commit(outbox, lambda db: forget_roster(db, MESH))
    assert (own_invites(outbox, MESH), verified(outbox, MESH), loaded(outbox, town).n) == ([], {}, -1)
