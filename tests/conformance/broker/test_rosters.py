"""A roster at a broker: taken, appended to, read, and judged again from its first entry on."""

import json
from collections.abc import Callable
from itertools import pairwise

import pytest

from parley.broker.calls import AcceptMessage
from parley.broker.methods import CallMethod
from parley.broker.rules import roster_state
from parley.broker.rules.accept import incoming
from parley.broker.rules.broker_key import broker_key
from parley.broker.rules.roster_append import SKEW_MS
from parley.broker.rules.roster_check import first_misfit
from parley.broker.rules.roster_log import PAGE_BYTES_MAX
from parley.broker.rules.roster_state import SNAPSHOT_ENTRIES
from parley.broker.store import BrokerStore
from parley.broker.tx import Tx
from parley.core.canonical import canonical_json
from parley.core.clock import ManualClock
from parley.core.errors import InvalidInput, ParleyError
from parley.core.limits import ROSTER_APPEND_BYTES_MAX, ROSTER_APPEND_ENTRIES_MAX, ROSTER_ENTRY_BYTES_MAX
from parley.core.roster import State, apply, entries
from parley.core.roster.authoring import next_entry
from parley.core.roster.entries import entry_hash
from parley.core.roster.heads import Head, judge_head, sign_head
from tests.conformance.broker.circle import Circle, make_send
from tests.conformance.broker.rostered import BROKER_SEED, Rostered, founding, take, texts
from tests.core.roster.town import START, Town, key_body, key_of, seed_of

DAY_SECONDS = 24 * 3600


@pytest.fixture
def mesh(store: BrokerStore, clock: ManualClock) -> Rostered:
    return Rostered(store, clock)


def refused(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(ParleyError) as caught:
        call()
    return caught.value.code, str(caught.value.details.get("reason", ""))


def test_a_roster_that_names_the_broker_is_taken_with_a_head_that_members_believe(
    store: BrokerStore, clock: ManualClock
) -> None:
    town = founding(store, clock)
    taken = store.call(take(store, town))
    assert (taken.created, taken.answer.slug, taken.answer.member_id) == (True, "red", town.ids["ada"])
    assert taken.answer.fingerprint == town.state.fingerprint
    assert taken.answer.head == sign_head(1, town.state.head, fingerprint=town.state.fingerprint, seed=BROKER_SEED)
    assert judge_head(town.state, lambda n: entry_hash(town.log[n]), taken.answer.head) == "known"


def test_a_roster_that_is_taken_again_is_the_same_mesh_and_others_are_not(
    store: BrokerStore, clock: ManualClock
) -> None:
    town = founding(store, clock)
    first = store.call(take(store, town))
    again = store.call(take(store, town, slug="blue"))
    assert (again.created, again.answer) == (False, first.answer)
    other = [town.log[0], town.log[0]]
    assert refused(lambda: store.call(take(store, town, log=other))) == ("ROSTER_REFUSED", "conflict")
    renamed = Town()
    renamed.do("ada", "rename", entries.Rename("eve"))
    assert refused(lambda: store.call(take(store, renamed))) == ("ROSTER_REFUSED", "conflict")
    bob = founding(store, clock, "bob")
    assert refused(lambda: store.call(take(store, bob))) == ("INVALID_INPUT", ""), "the slug is taken"
    assert store.call(take(store, bob, slug="blue")).created


def test_a_roster_of_another_broker_of_nobody_or_of_another_time_is_not_taken(
    store: BrokerStore, clock: ManualClock
) -> None:
    good = founding(store, clock)
    elsewhere = Town()
    elsewhere.do("ada", "broker", entries.NameBroker(key_of("another broker")))
    assert refused(lambda: store.call(take(store, elsewhere))) == ("ROSTER_REFUSED", "other_broker")
    assert refused(lambda: store.call(take(store, good, log=good.log[:1]))) == ("ROSTER_REFUSED", "other_broker")
    forged = good.log[0].replace(b'"ada"', b'"eve"')
    assert refused(lambda: store.call(take(store, good, log=[forged]))) == ("ROSTER_REFUSED", "bad_signature")
    adopting = founding(store, clock)
    adopting.do("ada", "adopt", entries.Adopt([entries.Adopted("mem_1", key_of("ada"), "ada", "owner")]))
    assert refused(lambda: store.call(take(store, adopting))) == ("ROSTER_REFUSED", "adopt")
    clock.jump(SKEW_MS + 2)
    assert refused(lambda: store.call(take(store, good)))[0] == "ROSTER_CLOCK"
    clock.jump(-SKEW_MS)
    assert store.call(take(store, good)).created, "the control: only its time was wrong"


def test_entries_before_the_naming_of_the_broker_may_be_old(store: BrokerStore, clock: ManualClock) -> None:
    """A personal mesh has its roster from its first write on, and is published when its owner wants to."""
    founding(store, clock)
    town = Town(at=START - 90 * DAY_SECONDS * 1000)
    town.now = START
    town.do("ada", "broker", entries.NameBroker(store.call(broker_key)))
    assert store.call(take(store, town)).created


def test_entries_are_numbered_in_the_meshs_one_order_and_its_members_are_those_of_the_roster(mesh: Rostered) -> None:
    mesh.join("bob")
    mesh.join("cid")
    mesh.do("ada", "role", entries.SetRole(mesh.town.ids["bob"], "admin"))
    numbers = mesh.all("SELECT epoch, seq, n FROM mesh_log WHERE mesh_id = ? ORDER BY epoch, seq", mesh.mesh_id)
    assert numbers == [(1, n + 1, n) for n in range(5)]
    assert mesh.log() == mesh.town.log
    assert mesh.members() == {"ada": ("owner", "active"), "bob": ("admin", "active"), "cid": ("member", "active")}
    assert mesh.kept().head.hash == mesh.town.state.head
    assert mesh.store.call(lambda tx: first_misfit(tx, mesh.mesh_id)) is None


def test_each_append_is_told_to_the_members_with_the_head_that_it_made(mesh: Rostered) -> None:
    done = mesh.join("bob")
    (notice,) = done.notices
    assert (notice.name, notice.data) == ("roster_head", done.result["head"])
    head = Head(**done.result["head"])
    assert judge_head(mesh.town.state, lambda n: entry_hash(mesh.town.log[n]), head) == "known"


def test_a_removal_and_its_key_are_one_append_that_ends_the_member_here_too(mesh: Rostered) -> None:
    mesh.join("bob")
    mesh.join("cid")
    mesh.do("ada", "key", key_body(mesh.town.state))
    sent = make_send("from bob", ref=key_of("ada"))
    mesh.store.call(AcceptMessage(incoming(mesh.mesh_id, mesh.town.ids["bob"], sent), mesh.store.policy))
    removal = mesh.town.entry("ada", "remove", mesh.town.of("bob"))
    after = apply(mesh.town.state, removal)
    assert isinstance(after, State)
    key = next_entry(after, "key", key_body(after), by=mesh.town.ids["ada"], seed=seed_of("ada"), at=after.at)
    done = mesh.offer("ada", removal, key)
    assert done.result["appended"]
    assert done.ended == (mesh.town.ids["bob"],)
    assert mesh.members()["bob"] == ("member", "revoked")
    assert mesh.all("SELECT state FROM delivery_queue") == [("dead",)]
    assert mesh.all("SELECT key_epoch FROM mesh WHERE mesh_id = ?", mesh.mesh_id) == [(2,)]
    assert refused(lambda: mesh.call("bob", "roster_read"))[0] == "MEMBERSHIP_ENDED"


def test_entries_are_appended_together_or_not_at_all(mesh: Rostered) -> None:
    first = mesh.town.entry("ada", "rename", entries.Rename("ann"))
    assert mesh.refusal("ada", first, first) == ("ROSTER_REFUSED", "conflict")
    assert mesh.offer("ada", first).result["appended"], "the control: the first one alone is good"


def test_an_append_whose_answer_was_lost_is_answered_as_the_first_time(mesh: Rostered) -> None:
    entry = mesh.town.entry("ada", "rename", entries.Rename("ann"))
    first = mesh.offer("ada", entry)
    mesh.join("bob")
    before = mesh.rows()
    again = mesh.offer("ada", entry, after=first.result["head"]["n"] - 1)
    assert again.result == first.result
    assert again.notices == ()
    assert mesh.rows() == before


def test_a_joiner_whose_answer_was_lost_is_answered_as_the_first_time(mesh: Rostered) -> None:
    data = mesh.town.joining("bob", mesh.town.invite("ada", uses=1))
    first = mesh.offer("bob", data)
    assert first.result["appended"]
    again = mesh.offer("bob", data, after=first.result["head"]["n"] - 1)
    assert again.result == first.result
    assert len(mesh.log()) == 3


def test_a_member_that_left_joins_again_with_its_key_as_somebody_new(mesh: Rostered) -> None:
    mesh.join("bob")
    old = mesh.town.ids["bob"]
    mesh.do("bob", "leave", entries.Leave())
    del mesh.town.ids["bob"]
    mesh.join("bob")
    states = mesh.all("SELECT member_id, state FROM member WHERE display_name = 'bob' ORDER BY joined_ms, member_id")
    assert dict(states) == {old: "left", mesh.town.ids["bob"]: "active"}
    assert mesh.all("SELECT member_id FROM member_key WHERE pubkey = ?", key_of("bob")) == [(mesh.town.ids["bob"],)]
    assert mesh.store.call(lambda tx: first_misfit(tx, mesh.mesh_id)) is None


def test_a_roster_is_read_in_pages_from_a_number_on(mesh: Rostered) -> None:
    for name in ("bob", "cid", "dan"):
        mesh.join(name)
    found: list[str] = []
    while len(found) <= mesh.kept().n:
        page = mesh.call("bob", "roster_read", start=len(found), limit=2).result
        assert 1 <= len(page["entries"]) <= 2
        assert page["head"]["n"] == mesh.kept().n
        found += page["entries"]
    assert found == texts(mesh.town.log)
    assert mesh.call("bob", "roster_read", start=len(found)).result["entries"] == []


def test_no_page_is_larger_than_fits_into_a_frame(mesh: Rostered) -> None:
    """Rows are put in by hand, since entries that large take long to make."""
    filler = "x" * ROSTER_ENTRY_BYTES_MAX
    count = PAGE_BYTES_MAX // ROSTER_ENTRY_BYTES_MAX + 10
    mesh.store.call(
        lambda tx: tx.many(
            "INSERT INTO mesh_log (mesh_id, epoch, seq, n, author, kind, entry, hash, appended_ms)"
            " VALUES (?, 1, ?, ?, 'x', 'x', ?, 'x', 1)",
            [(mesh.mesh_id, 100 + n, 100 + n, filler.encode()) for n in range(count)],
        )
    )
    page = mesh.call("ada", "roster_read", start=100).result["entries"]
    assert len(page) == PAGE_BYTES_MAX // ROSTER_ENTRY_BYTES_MAX


def forged(mesh: Rostered) -> bytes:
    entry = json.loads(mesh.town.entry("ada", "rename", entries.Rename("ann")))
    return canonical_json({**entry, "sig": "0" * 128})


def of_another_place(mesh: Rostered) -> bytes:
    entry = json.loads(mesh.town.entry("ada", "rename", entries.Rename("ann")))
    return canonical_json({**entry, "n": entry["n"] + 1})


def after_something_else(mesh: Rostered) -> bytes:
    entry = json.loads(mesh.town.entry("ada", "rename", entries.Rename("ann")))
    return canonical_json({**entry, "prev": "0" * 64})


def oversized(mesh: Rostered) -> bytes:
    return canonical_json({"n": mesh.town.state.n + 1, "filler": "x" * ROSTER_ENTRY_BYTES_MAX})


def too_deep(_: Rostered) -> bytes:
    return b"[" * 2_000 + b"]" * 2_000


def not_canonical(mesh: Rostered) -> bytes:
    return mesh.town.entry("ada", "rename", entries.Rename("ann")) + b" "


def unknown_kind(mesh: Rostered) -> bytes:
    entry = json.loads(mesh.town.entry("ada", "rename", entries.Rename("ann")))
    return canonical_json({**entry, "kind": "crown"})


def of_somebody_else(mesh: Rostered) -> bytes:
    return mesh.town.entry("bob", "rename", entries.Rename("ann"))


def of_yesterday(mesh: Rostered) -> bytes:
    return mesh.town.entry("ada", "rename", entries.Rename("ann"), at=mesh.clock.now_ms() - SKEW_MS - 1)


def of_tomorrow(mesh: Rostered) -> bytes:
    return mesh.town.entry("ada", "rename", entries.Rename("ann"), at=mesh.clock.now_ms() + SKEW_MS + 1)


def to_another_broker(mesh: Rostered) -> bytes:
    return mesh.town.entry("ada", "broker", entries.NameBroker(key_of("another broker")))


def the_same_name(mesh: Rostered) -> bytes:
    return mesh.town.entry("ada", "rename", entries.Rename("bob"))


BAD = (
    (forged, "ROSTER_REFUSED", "bad_signature"),
    (of_another_place, "ROSTER_REFUSED", "conflict"),
    (after_something_else, "ROSTER_REFUSED", "conflict"),
    (oversized, "ROSTER_REFUSED", "too_large"),
    (too_deep, "ROSTER_REFUSED", "not_canonical"),
    (not_canonical, "ROSTER_REFUSED", "not_canonical"),
    (unknown_kind, "ROSTER_REFUSED", "unknown_kind"),
    (of_somebody_else, "ROSTER_REFUSED", "not_its_author"),
    (of_yesterday, "ROSTER_CLOCK", ""),
    (of_tomorrow, "ROSTER_CLOCK", ""),
    (to_another_broker, "ROSTER_REFUSED", "other_broker"),
    (the_same_name, "ROSTER_REFUSED", "name_taken"),
)


@pytest.mark.parametrize(("make", "code", "reason"), BAD, ids=[make.__name__ for make, _, _ in BAD])
def test_what_may_not_stand_is_refused_by_its_code_and_changes_nothing(
    mesh: Rostered, make: Callable[[Rostered], bytes], code: str, reason: str
) -> None:
    mesh.join("bob")
    assert mesh.refusal("ada", make(mesh)) == (code, reason)
    control = mesh.town.entry("ada", "rename", entries.Rename("ann"))
    assert mesh.offer("ada", control).result["appended"], "the control: as it should be, it is taken"


def test_what_is_too_much_at_once_is_refused(mesh: Rostered) -> None:
    entry = mesh.town.entry("ada", "rename", entries.Rename("ann"))
    many = ROSTER_APPEND_BYTES_MAX // ROSTER_ENTRY_BYTES_MAX + 1
    assert mesh.refusal("ada", *[b"x" * ROSTER_ENTRY_BYTES_MAX] * many) == ("ROSTER_REFUSED", "too_large")
    for count in (0, ROSTER_APPEND_ENTRIES_MAX + 1):
        with pytest.raises(InvalidInput):
            mesh.offer("ada", *[entry] * count)
    with pytest.raises(ParleyError) as caught:
        mesh.call("ada", "roster_append", after=mesh.town.state.n, entries=["\ud800"])
    assert caught.value.details["reason"] == "not_canonical"


def test_who_is_ahead_of_the_broker_is_told_so(mesh: Rostered) -> None:
    entry = mesh.town.entry("ada", "rename", entries.Rename("ann"))
    assert mesh.refusal("ada", entry, after=mesh.town.state.n + 1) == ("ROSTER_REFUSED", "ahead")


def test_a_joiner_appends_its_own_join_and_nothing_else(mesh: Rostered) -> None:
    invite = mesh.town.invite("ada")
    join = mesh.town.joining("bob", invite)
    assert mesh.refusal("eve", join) == ("ROSTER_REFUSED", "not_its_author")
    assert mesh.refusal("bob", join, join) == ("ROSTER_REFUSED", "one_at_a_time")
    rename = mesh.town.entry("ada", "rename", entries.Rename("ann"))
    assert mesh.refusal("bob", rename) == ("ROSTER_REFUSED", "not_its_author")
    for method in ("peers", "members", "roster_confirm", "nothing"):
        assert refused(lambda name=method: mesh.call("bob", name))[0] == "NOT_ALLOWED"
    assert refused(lambda: mesh.call("bob", "roster_read", start=-1))[0] == "INVALID_INPUT"
    assert mesh.offer("bob", join).result["appended"], "the control"


def test_a_full_mesh_takes_no_more_members(mesh: Rostered) -> None:
    mesh.store.call(lambda tx: tx.run("UPDATE mesh SET members_max = 1"))
    join = mesh.town.joining("bob", mesh.town.invite("ada"))
    assert mesh.refusal("bob", join)[0] == "QUOTA_EXCEEDED"
    mesh.store.call(lambda tx: tx.run("UPDATE mesh SET members_max = 2"))
    assert mesh.offer("bob", join).result["appended"]


def test_a_member_appends_one_entry_a_minute_and_an_admin_as_many_as_it_likes(mesh: Rostered) -> None:
    mesh.join("bob")
    mesh.do("bob", "rename", entries.Rename("rob"))
    entry = mesh.town.entry("bob", "rename", entries.Rename("bert"))
    assert mesh.refusal("bob", entry)[0] == "ROSTER_TOO_SOON"
    with pytest.raises(ParleyError) as caught:
        mesh.offer("bob", entry)
    assert caught.value.details["retry_after"] == 60
    assert mesh.refusal("bob", entry, entry) == ("ROSTER_REFUSED", "one_at_a_time")
    mesh.pass_time(60)
    mesh.do("bob", "rename", entries.Rename("bert"))
    for number in range(5):
        mesh.do("ada", "rename", entries.Rename(f"ada{number}"))


def test_a_member_has_ten_names_and_keys_a_day(mesh: Rostered) -> None:
    mesh.join("bob")
    for number in range(10):
        mesh.pass_time(60)
        mesh.do("bob", "rename", entries.Rename(f"bob{number}"))
    mesh.pass_time(60)
    entry = mesh.town.entry("bob", "rename", entries.Rename("once.more"))
    assert mesh.refusal("bob", entry)[0] == "ROSTER_TOO_SOON"
    mesh.pass_time(DAY_SECONDS - 600)
    mesh.do("bob", "rename", entries.Rename("the.next.day"))


def test_what_a_roster_decides_the_broker_does_not(mesh: Rostered) -> None:
    mesh.join("bob")
    bob = mesh.town.ids["bob"]
    for method, params in (
        ("set_role", {"member_id": bob, "role": "admin"}),
        ("revoke", {"member_id": bob}),
        ("ban", {"member_id": bob}),
        ("unban", {"member_id": bob}),
        ("leave", {}),
        ("revoke_invite", {"invite_id": "inv_1"}),
        ("rotate_key", {"pubkey": key_of("x"), "signature": "0" * 128}),
        ("create_invite", {"invite": "parley-invite:x"}),
    ):
        assert refused(lambda m=method, p=params: mesh.call("ada", m, **p))[0] == "ROSTER_DECIDES"
    assert mesh.members()["bob"] == ("member", "active")


def test_a_mesh_without_a_roster_goes_on_as_before(circle: Circle) -> None:
    def call(method: str, **params: object) -> Callable[[], object]:
        return lambda: circle.store.call(CallMethod(circle.mesh_id, circle.ann.member_id, method, params))

    assert refused(call("roster_read"))[0] == "NO_ROSTER"
    assert refused(call("roster_append", after=0, entries=["x"]))[0] == "NO_ROSTER"
    assert refused(call("roster_confirm", after=0))[0] == "NO_ROSTER"
    call("set_role", member_id=circle.bob.member_id, role="admin")()
    assert circle.store.call(lambda tx: first_misfit(tx, circle.mesh_id)) is None


def test_a_start_makes_the_state_from_a_snapshot_or_without_one(
    mesh: Rostered, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(SNAPSHOT_ENTRIES):
        mesh.do("ada", "rename", entries.Rename(f"ada{number}"))
    ((n,),) = mesh.all("SELECT n FROM roster_snapshot")
    assert n == SNAPSHOT_ENTRIES
    for change in (
        "SELECT 1",
        "UPDATE roster_snapshot SET state = ?",
        "DELETE FROM roster_snapshot",
    ):
        monkeypatch.setattr(roster_state, "_memory", roster_state._Memory())  # pyright: ignore[reportPrivateUsage]
        values = (b"nonsense",) if "?" in change else ()
        mesh.store.call(
            lambda tx, sql=change, args=values: tx.all(sql, *args) if "SELECT" in sql else tx.run(sql, *args)
        )
        mesh.do("ada", "rename", entries.Rename(f"after.{change[:3].lower()}"))
    assert mesh.log() == mesh.town.log


def test_nothing_is_appended_to_a_roster_whose_entries_were_damaged(
    mesh: Rostered, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh.join("bob")
    monkeypatch.setattr(roster_state, "_memory", roster_state._Memory())  # pyright: ignore[reportPrivateUsage]
    mesh.store.call(lambda tx: tx.run("UPDATE mesh_log SET entry = ? WHERE n = 2", b"{}"))
    entry = mesh.town.entry("ada", "rename", entries.Rename("ann"))
    assert mesh.refusal("ada", entry)[0] == "INTERNAL_ERROR"


def test_what_was_not_committed_is_not_remembered_as_if_it_were(mesh: Rostered) -> None:
    """The state is kept in memory as soon as it is known, and its transaction may still fail."""
    data = mesh.town.entry("ada", "rename", entries.Rename("ann"))

    def fail(tx: Tx) -> None:
        CallMethod(mesh.mesh_id, mesh.town.ids["ada"], "roster_append", {"after": 1, "entries": texts([data])})(tx)
        raise InvalidInput("the medium fails")

    assert refused(lambda: mesh.store.call(fail))[0] == "INVALID_INPUT"
    mesh.join("bob")
    assert mesh.log() == mesh.town.log


DAMAGE = {
    "an entry is changed": ("UPDATE mesh_log SET entry = ? WHERE n = 2", (b"{}",), 2),
    "an entry is missing": ("DELETE FROM mesh_log WHERE n = 2", (), 2),
    "the end is missing": ("DELETE FROM mesh_log WHERE n = 3", (), 3),
    "the head is another": ("UPDATE roster SET signature = ?", ("0" * 128,), 4),
    "a member is another": ("UPDATE member SET role = ? WHERE display_name = 'bob'", ("owner",), 3),
    "a key is another's": ("DELETE FROM member_key WHERE pubkey = ?", (key_of("bob"),), 3),
    "a member is nobody's": ("UPDATE member SET state = 'left' WHERE display_name = ?", ("cid",), 3),
    "an author is another": ("UPDATE mesh_log SET author = ? WHERE n = 3", ("mem_x",), 3),
    "the order is another": ("UPDATE mesh_log SET seq = seq + ? WHERE n = 1", (50,), 2),
    "a fingerprint is another": ("UPDATE roster SET fingerprint = ?", ("0" * 64,), 0),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_the_check_finds_what_does_not_follow_from_the_entries(mesh: Rostered, what: str) -> None:
    mesh.join("bob")
    mesh.join("cid")
    assert mesh.store.call(lambda tx: first_misfit(tx, mesh.mesh_id)) is None
    sql, values, n = DAMAGE[what]
    mesh.store.call(lambda tx: tx.run(sql, *values))
    assert mesh.store.call(lambda tx: first_misfit(tx, mesh.mesh_id)) == n


def test_the_check_finds_a_snapshot_of_something_else(mesh: Rostered) -> None:
    state = mesh.all("SELECT state FROM roster_snapshot")[0][0]
    changed = bytes(state).replace(b'"name":"ada"', b'"name":"eve"')
    assert changed != bytes(state)
    mesh.store.call(lambda tx: tx.run("UPDATE roster_snapshot SET state = ?", changed))
    assert mesh.store.call(lambda tx: first_misfit(tx, mesh.mesh_id)) == 1


def test_the_brokers_key_is_made_once(store: BrokerStore, clock: ManualClock) -> None:
    founding(store, clock)
    first = store.call(broker_key)
    founding(store, clock)
    assert store.call(broker_key) == first


def test_numbers_follow_each_other_without_a_gap(mesh: Rostered) -> None:
    for number in range(10):
        mesh.join(f"m{number}")
    numbers = [seq for (seq,) in mesh.all("SELECT seq FROM mesh_log ORDER BY n")]
    assert all(after == before + 1 for before, after in pairwise(numbers))
