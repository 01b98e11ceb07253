"""A roster that was restored from a backup: nothing is decided anew before an owner has brought back what was lost."""

import pytest

from parley.broker.rules.roster_check import first_misfit
from parley.broker.rules.roster_log import get_roster
from parley.broker.rules.roster_restore import mark_restored, note_told
from parley.broker.store import BrokerStore
from parley.core.clock import ManualClock
from parley.core.errors import ParleyError
from parley.core.roster import entries
from parley.core.roster.heads import Head, sign_head
from tests.conformance.broker.rostered import BROKER_SEED, Rostered, texts

LOST = ("member", "member_key", "roster", "mesh_log")
"""Each after what it refers to."""


@pytest.fixture
def mesh(store: BrokerStore, clock: ManualClock) -> Rostered:
    """Restored as of its fourth entry; the town remembers that Bob was removed after it."""
    mesh = Rostered(store, clock)
    mesh.join("bob")
    mesh.join("cid")
    backup = {table: mesh.all(f"SELECT * FROM {table}") for table in LOST}
    mesh.do("ada", "remove", mesh.town.of("bob"))
    mesh.join("dan")
    for table in reversed(LOST):
        store.call(lambda tx, name=table: tx.run(f"DELETE FROM {name}"))
    for table in LOST:
        for row in backup[table]:
            marks = ", ".join("?" * len(row))
            store.call(lambda tx, name=table, values=row, m=marks: tx.run(f"INSERT INTO {name} VALUES ({m})", *values))
    store.call(mark_restored)
    return mesh


def code(mesh: Rostered, name: str, method: str, **params: object) -> str:
    with pytest.raises(ParleyError) as caught:
        mesh.call(name, method, **params)
    return caught.value.code


def lost(mesh: Rostered) -> list[str]:
    return texts(mesh.town.log[4:])


def told(mesh: Rostered, head: Head) -> Head | None:
    return mesh.store.call(lambda tx: note_told(tx, get_roster(tx, mesh.mesh_id), head)).told


def test_nothing_is_appended_before_an_owner_has_confirmed(mesh: Rostered) -> None:
    assert mesh.members()["bob"] == ("member", "active")
    entry = mesh.town.entry("ada", "rename", entries.Rename("ann"))
    assert mesh.refusal("ada", entry, after=3) == ("ROSTER_RESTORING", "")
    assert mesh.call("cid", "roster_read").result["restoring"]
    assert code(mesh, "cid", "roster_confirm", after=3) == "NOT_ALLOWED"


def test_what_was_lost_is_brought_back_in_parts_and_nobody_who_was_removed_is_a_member_again(mesh: Rostered) -> None:
    behind = mesh.call("ada", "roster_confirm", after=2, entries=[]).result
    assert (behind["missing"], behind["restoring"]) == (texts(mesh.town.log[3:4]), True)
    first = mesh.call("ada", "roster_confirm", after=3, entries=lost(mesh)[:1])
    assert first.ended == (mesh.town.ids["bob"],)
    assert first.result["restoring"]
    head = mesh.town.state.head
    last = mesh.call("ada", "roster_confirm", after=4, entries=lost(mesh)[1:], confirmed=head).result
    assert (last["restoring"], last["head"]["hash"]) == (False, head)
    assert mesh.log() == mesh.town.log
    assert mesh.members()["bob"] == ("member", "revoked")
    assert mesh.members()["dan"] == ("member", "active")
    kept = mesh.kept()
    assert (kept.epoch, kept.seq, kept.restoring) == (2, 6, False)
    mesh.do("ada", "rename", entries.Rename("ann"))
    newest = mesh.all("SELECT epoch, seq, n FROM mesh_log ORDER BY seq DESC LIMIT 1")
    assert newest == [(2, 7, 6)]
    assert mesh.all("SELECT epoch_follows FROM roster") == [(6,)]
    assert mesh.store.call(lambda tx: first_misfit(tx, mesh.mesh_id)) is None


def test_a_confirmation_that_is_repeated_changes_nothing(mesh: Rostered) -> None:
    head = mesh.town.state.head
    first = mesh.call("ada", "roster_confirm", after=3, entries=lost(mesh), confirmed=head).result
    before = mesh.rows()
    assert mesh.call("ada", "roster_confirm", after=3, entries=lost(mesh), confirmed=head).result == first
    assert mesh.rows() == before


def test_what_does_not_fit_is_not_brought_back(mesh: Rostered) -> None:
    before = mesh.rows()
    assert code(mesh, "ada", "roster_confirm", after=4) == "ROSTER_REFUSED"
    assert code(mesh, "ada", "roster_confirm", after=3, entries=lost(mesh)[1:]) == "ROSTER_REFUSED"
    assert code(mesh, "ada", "roster_confirm", after=3, entries=lost(mesh), confirmed="0" * 64) == "ROSTER_REFUSED"
    assert mesh.rows() == before


def test_a_backup_that_lacked_nothing_is_confirmed_as_it_is(mesh: Rostered) -> None:
    kept = mesh.kept()
    assert not mesh.call("ada", "roster_confirm", after=3, confirmed=kept.head.hash).result["restoring"]
    assert mesh.kept().epoch == 2


def test_the_newest_head_that_members_come_with_is_remembered_if_this_broker_signed_it(mesh: Rostered) -> None:
    state = mesh.town.state
    newest = sign_head(state.n, state.head, fingerprint=state.fingerprint, seed=BROKER_SEED)
    forged = sign_head(99, state.head, fingerprint=state.fingerprint, seed=b"\6" * 32)
    assert told(mesh, forged) is None
    assert told(mesh, mesh.kept().head) is None, "that is no news"
    assert told(mesh, newest) == newest
    older = sign_head(4, "ab" * 32, fingerprint=state.fingerprint, seed=BROKER_SEED)
    assert told(mesh, older) == newest
    mesh.call("ada", "roster_confirm", after=3, entries=lost(mesh), confirmed=state.head)
    assert mesh.kept().told is None
