"""A mesh whose broker has shown two rosters: one branch goes on, and everybody ends on it with nobody let back in."""

import copy
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from parley.broker.sqlite_store import open_sqlite_store
from parley.broker.store import BrokerStore
from parley.core.broker_errors import RosterRefused
from parley.core.clock import ManualClock
from parley.core.roster import entries
from parley.daemon.rosters import acts
from parley.daemon.rosters.branches import follow_settlement, settle
from parley.daemon.rosters.errands import append, catch_up
from tests.conformance.broker.rostered import Rostered, founding, take
from tests.daemon.rosters.holder import Holder, keys_of


class Forked:
    """Ada, bob, cid and dan; ada and bob own the mesh. The broker has shown bob another roster than the rest."""

    def __init__(self, mesh: Rostered, store: BrokerStore, clock: ManualClock) -> None:
        self.mesh = mesh
        for name in ("bob", "cid", "dan"):
            mesh.join(name)
        mesh.do("ada", "role", entries.SetRole(mesh.town.ids["bob"], "owner"))
        mesh.pass_time(1)
        mesh.do("ada", "rename", entries.Rename("amy"))
        self.fork = mesh.town.state.n
        self.other = copy.copy(mesh)
        self.other.store, self.other.clock, self.other.town = store, clock, copy.copy(mesh.town)
        self.other.town.log = list(mesh.town.log)
        founding(store, clock)
        clock.jump(mesh.clock.now_ms() - clock.now_ms())
        self.other.mesh_id = store.call(take(store, mesh.town)).answer.mesh_id

    def on(self, place: Rostered, name: str) -> Holder:
        """A member who reads from this branch."""
        made = Holder(place, name)
        made.run(catch_up(made.copy))
        made.held = [keys_of(1)]
        return made

    def moves(self, found: Holder, to: Rostered) -> None:
        """The broker shows the other branch from now on."""
        found.mesh = to
        found._asks = lambda method, params: to.call(found.name, method, **params).result
        found.run(catch_up(found.copy))


@pytest.fixture
def forked(mesh: Rostered, tmp_path: Path) -> Any:
    clock = ManualClock()
    with closing(open_sqlite_store(tmp_path / "other.db", clock, synchronous="normal")) as store:
        yield Forked(mesh, store, clock)


def removes(forked: Forked, place: Rostered, by: Holder, name: str) -> None:
    by.run(append(by.copy, acts.put_out(place.town.ids[name], "remove"), by.me))


def test_whom_the_losing_branch_had_removed_is_removed_again_and_others_follow(forked: Forked) -> None:
    bob, dan = forked.on(forked.other, "bob"), forked.on(forked.other, "dan")
    removes(forked, forked.other, bob, "cid")
    dan.run(catch_up(dan.copy))
    forked.mesh.do("ada", "rename", entries.Rename("ann"))
    for each in (bob, dan):
        forked.moves(each, forked.mesh)
        assert each.copy.marks.split is not None
    assert not dan.run(follow_settlement(dan.copy)), "nobody has settled it yet"
    said = bob.run(settle(bob.copy, bob.me, bob.lost))
    assert [step.entry.kind for step in said] == ["settle", "remove", "key"]
    state = bob.copy.state
    assert state is not None
    assert (state.members[forked.mesh.town.ids["cid"]].status, bob.copy.marks.split) == ("removed", None)
    assert [step.data for step in bob.steps] == forked.mesh.log()
    assert dan.run(follow_settlement(dan.copy))
    assert (dan.copy.state, [step.data for step in dan.steps]) == (state, forked.mesh.log())
    ada = forked.on(forked.mesh, "ada")
    assert ada.copy.state == state


def test_nobody_goes_over_because_of_an_owner_of_the_other_branch_alone(forked: Forked) -> None:
    dan = forked.on(forked.other, "dan")
    bob = forked.on(forked.other, "bob")
    removes(forked, forked.other, bob, "cid")
    dan.run(catch_up(dan.copy))
    lost = dan.copy.hash_of(forked.fork + 1)
    assert lost is not None
    forked.mesh.do("ada", "role", entries.SetRole(forked.mesh.town.ids["dan"], "owner"))
    forked.mesh.do("bob", "rename", entries.Rename("ben"))
    forked.moves(dan, forked.mesh)
    before = dan.copy.state
    assert not dan.run(follow_settlement(dan.copy))
    assert dan.copy.state is before
    forked.mesh.do("ada", "settle", entries.Settle(forked.fork, [lost]))
    assert dan.run(follow_settlement(dan.copy)), "ada owns the mesh on both"


def test_only_an_owner_settles(forked: Forked) -> None:
    dan = forked.on(forked.other, "dan")
    bob = forked.on(forked.other, "bob")
    removes(forked, forked.other, bob, "cid")
    dan.run(catch_up(dan.copy))
    forked.mesh.do("ada", "rename", entries.Rename("ann"))
    forked.moves(dan, forked.mesh)
    with pytest.raises(RosterRefused) as refused:
        dan.run(settle(dan.copy, dan.me, dan.lost))
    assert refused.value.details["reason"] == "not_allowed"


def test_where_nothing_is_split_nothing_is_settled(forked: Forked) -> None:
    bob = forked.on(forked.mesh, "bob")
    assert bob.run(settle(bob.copy, bob.me, bob.lost)) == []
    assert not bob.run(follow_settlement(bob.copy))
