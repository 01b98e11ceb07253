"""Errands against a broker's rules: read, append beside others, and notice a broker that shows something else."""

from typing import Any

import pytest

from parley.core.broker_errors import RosterRefused
from parley.core.daemon_errors import MeshUnreachable, RosterSplit
from parley.core.roster import entries
from parley.core.roster.epoch_keys import fits
from parley.core.roster.heads import sign_head
from parley.daemon.rosters import acts
from parley.daemon.rosters.errands import Ask, Keep, KeepKeys, append, bring_back, catch_up
from tests.conformance.broker.rostered import BROKER_SEED, Rostered
from tests.daemon.rosters.holder import Holder, keys_of


def reader(mesh: Rostered, name: str = "ada", **more: Any) -> Holder:
    """A member who has read all that there is."""
    made = Holder(mesh, name, **more)
    made.run(catch_up(made.copy))
    made.needs.clear()
    return made


def test_a_copy_is_read_and_written_down_from_the_first_entry_on(mesh: Rostered) -> None:
    mesh.join("bob")
    ada = reader(mesh)
    assert [step.data for step in ada.steps] == mesh.log()
    assert ada.copy.state == mesh.town.state
    assert ada.copy.marks.head == mesh.kept().head
    ada.run(catch_up(ada.copy))
    assert ada.asked() == ["roster_read"], "there was nothing to be taken"


def test_a_copy_is_read_in_as_many_pages_as_the_broker_makes(mesh: Rostered) -> None:
    mesh.join("bob")

    def by_one(method: str, params: dict[str, Any]) -> Any:
        return mesh.call("ada", method, **{**params, "limit": 1}).result

    assert reader(mesh, asks=by_one).copy.state == mesh.town.state


def test_an_act_is_written_down_once_the_broker_has_it(mesh: Rostered) -> None:
    ada = reader(mesh)
    steps = ada.run(append(ada.copy, acts.rename(ada.me.member_id, "ann"), ada.me))
    assert [type(need) for need in ada.needs] == [Ask, Keep]
    assert mesh.log()[-1] == steps[0].data == ada.steps[-1].data
    assert ada.copy.marks.head == mesh.kept().head


def test_who_was_too_late_reads_what_came_before_and_says_it_again(mesh: Rostered) -> None:
    mesh.join("bob")
    ada, bob = reader(mesh), reader(mesh, "bob")
    ada.run(append(ada.copy, acts.rename(ada.me.member_id, "ann"), ada.me))
    mesh.pass_time(120)
    bob.run(append(bob.copy, acts.rename(bob.me.member_id, "ben"), bob.me))
    assert bob.asked() == ["roster_append", "roster_append"]
    assert bob.copy.state is not None
    assert set(bob.copy.state.names) == {"ann", "ben"}
    assert [step.data for step in bob.steps] == mesh.log()


def test_what_somebody_else_has_said_meanwhile_is_not_said_again(mesh: Rostered) -> None:
    mesh.join("bob")
    mesh.join("cid")
    mesh.do("ada", "role", entries.SetRole(mesh.town.ids["bob"], "owner"))
    ada, bob = reader(mesh), reader(mesh, "bob")
    promotes = acts.set_role(mesh.town.ids["cid"], "admin")
    assert len(ada.run(append(ada.copy, promotes, ada.me))) == 1
    assert bob.run(append(bob.copy, promotes, bob.me)) == []
    assert bob.asked() == ["roster_append"], "it came too late, and there is nothing left to be said"
    assert ada.run(append(ada.copy, promotes, ada.me)) == []


def test_what_may_not_stand_there_is_refused_before_anybody_is_asked(mesh: Rostered) -> None:
    mesh.join("bob")
    bob = reader(mesh, "bob")
    with pytest.raises(RosterRefused) as refused:
        bob.run(append(bob.copy, acts.put_out(mesh.town.ids["ada"], "remove"), bob.me))
    assert refused.value.details["reason"] == "not_allowed"
    assert bob.asked() == []


def test_a_removal_comes_with_a_key_that_its_author_has_on_disk_first(mesh: Rostered) -> None:
    mesh.join("bob")
    ada = reader(mesh)
    ada.held = [keys_of(1)]
    ada.run(append(ada.copy, acts.put_out(mesh.town.ids["bob"], "remove"), ada.me))
    assert [type(need) for need in ada.needs] == [KeepKeys, Ask, Keep]
    assert ada.copy.state is not None
    assert (ada.copy.state.epoch, ada.copy.state.owed) == (2, "")
    newest = acts.newest_keys(ada.copy.state, ada.held)
    assert newest is not None
    assert newest.epoch == 2
    assert fits(ada.copy.state, newest)


def test_a_ban_of_somebody_who_is_gone_needs_no_key(mesh: Rostered) -> None:
    mesh.join("bob")
    ada = reader(mesh)
    for kind in ("remove", "ban"):
        ada.run(append(ada.copy, acts.put_out(mesh.town.ids["bob"], kind), ada.me))
    assert ada.copy.state is not None
    assert ada.copy.state.epoch == 2
    assert ada.copy.state.members[mesh.town.ids["bob"]].status == "banned"


def test_a_broker_that_serves_another_roster_is_found_out_and_nothing_of_it_is_taken(mesh: Rostered) -> None:
    ada = reader(mesh)
    before = ada.copy.state
    forged = {"entries": [mesh.log()[0].decode()], "restoring": False}
    head = sign_head(9, "ab" * 32, fingerprint=ada.copy.fingerprint, seed=BROKER_SEED)
    shown = {**forged, "head": {"n": head.n, "hash": head.hash, "sig": head.sig}}
    liar = Holder(mesh, "ada", asks=lambda method, params: shown)
    liar.copy = ada.copy
    liar.run(catch_up(liar.copy))
    assert liar.copy.state is before
    assert liar.copy.marks.split == head
    with pytest.raises(RosterSplit):
        ada.run(append(ada.copy, acts.rename(ada.me.member_id, "ann"), ada.me))


def test_entries_that_nobody_signed_are_not_taken_and_accuse_nobody_without_a_signed_head(mesh: Rostered) -> None:
    head = {"n": 9, "hash": "ab" * 32, "sig": "0" * 128}
    liar = Holder(mesh, "ada", asks=lambda method, params: {"entries": ["{}"], "head": head})
    liar.run(catch_up(liar.copy))
    assert (liar.copy.n, liar.copy.marks.split) == (-1, None)


@pytest.mark.parametrize("answer", [None, {}, {"entries": 1, "head": 2}, {"entries": [], "head": {"n": -1}}])
def test_an_answer_that_is_none_is_told_as_a_broker_that_cannot_be_used(mesh: Rostered, answer: object) -> None:
    liar = Holder(mesh, "ada", asks=lambda method, params: answer)
    with pytest.raises(MeshUnreachable):
        liar.run(catch_up(liar.copy))


def test_an_owner_brings_a_restored_broker_what_it_lost(mesh: Rostered) -> None:
    ada = reader(mesh)
    end = mesh.kept().head
    for name in ("ann", "ada", "amy"):
        mesh.do("ada", "rename", entries.Rename(name))
    ada.run(catch_up(ada.copy))
    log = mesh.log()

    def restored(tx: Any) -> None:
        tx.run("DELETE FROM mesh_log WHERE mesh_id = ? AND n > ?", mesh.mesh_id, end.n)
        tx.run("DELETE FROM roster_snapshot")
        tx.run(
            "UPDATE roster SET restoring = 1, seq = seq - 3, n = ?, hash = ?, signature = ? WHERE mesh_id = ?",
            *(end.n, end.hash, end.sig, mesh.mesh_id),
        )

    mesh.store.call(restored)
    assert ada.run(bring_back(ada.copy, end, ada.lost))
    assert mesh.log() == log
    assert not mesh.kept().restoring


def test_nothing_is_brought_to_a_broker_whose_roster_is_another(mesh: Rostered) -> None:
    ada = reader(mesh)
    other = sign_head(1, "ab" * 32, fingerprint=ada.copy.fingerprint, seed=BROKER_SEED)
    assert not ada.run(bring_back(ada.copy, other, ada.lost))
    assert ada.asked() == []
