"""A member's own copy believes a broker about nothing: what does not follow is not taken, and heads are judged."""

from parley.core import sealing
from parley.core.roster import Refusal, entries
from parley.core.roster.entries import entry_hash
from parley.core.roster.heads import Head, sign_head
from parley.daemon.rosters.copy import CONFIRMED_EVERY_MS, Confirmed, RosterCopy
from tests.core.roster.town import Town

BROKER = b"\5" * 32
OTHER = b"\6" * 32


def town() -> Town:
    made = Town()
    made.do("ada", "broker", entries.NameBroker(sealing.public_key(BROKER).hex()))
    return made


def copy_of(place: Town, entries_read: int | None = None) -> RosterCopy:
    copy = RosterCopy(place.state.fingerprint)
    take(copy, place.log[:entries_read])
    return copy


def take(copy: RosterCopy, log: list[bytes]) -> None:
    steps = copy.judge(log)
    assert not isinstance(steps, Refusal), steps
    copy.take(steps)


def head(place: Town, n: int, seed: bytes = BROKER) -> Head:
    return sign_head(n, entry_hash(place.log[n]), fingerprint=place.state.fingerprint, seed=seed)


def fork(place: Town, name: str) -> Town:
    """The same mesh up to its second entry, and then another one."""
    other = town()
    assert other.log == place.log[:2]
    other.do("ada", "rename", entries.Rename(name))
    return other


def test_the_roster_of_another_mesh_is_not_taken() -> None:
    copy = RosterCopy(town().state.fingerprint)
    refusal = copy.judge(Town("eve").log)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "conflict"
    assert copy.n == -1


def test_what_a_joiner_was_shown_must_be_on_the_chain() -> None:
    place = town()
    place.do("ada", "rename", entries.Rename("ann"))
    floor = (2, entry_hash(place.log[2]))
    copy = RosterCopy(place.state.fingerprint, floor)
    take(copy, place.log[:2])
    assert not copy.is_whole
    assert isinstance(copy.judge(fork(place, "amy").log[2:]), Refusal)
    take(copy, place.log[2:])
    assert copy.is_whole


def test_entries_that_do_not_follow_change_nothing() -> None:
    place = town()
    copy = copy_of(place, 1)
    place.do("ada", "rename", entries.Rename("ann"))
    assert isinstance(copy.judge(place.log[2:]), Refusal)
    assert copy.n == 0


def test_a_head_on_the_chain_is_known_and_the_newest_one_is_kept() -> None:
    place = town()
    place.do("ada", "rename", entries.Rename("ann"))
    copy = copy_of(place)
    assert copy.hear(head(place, 2)) == "known"
    assert copy.hear(head(place, 1)) == "known"
    assert copy.marks.head == head(place, 2)


def test_a_head_on_the_chain_that_the_broker_did_not_sign_is_not_kept() -> None:
    place = town()
    copy = copy_of(place)
    assert copy.hear(head(place, 1, OTHER)) == "known"
    assert copy.marks.head is None


def test_what_the_broker_has_signed_and_not_served_is_owed_until_it_is() -> None:
    place = town()
    copy = copy_of(place)
    place.do("ada", "rename", entries.Rename("ann"))
    assert copy.hear(head(place, 2)) == "owed"
    assert copy.marks.owed == head(place, 2)
    take(copy, place.log[2:])
    assert (copy.marks.owed, copy.marks.split) == (None, None)


def test_what_the_broker_owed_and_is_not_on_the_chain_is_a_split() -> None:
    place = town()
    copy, other = copy_of(place), fork(place, "amy")
    place.do("ada", "rename", entries.Rename("ann"))
    assert copy.hear(head(other, 2)) == "owed"
    take(copy, place.log[2:])
    assert copy.marks.split == head(other, 2)


def test_a_head_that_the_broker_signed_beside_the_chain_is_a_split_and_one_it_did_not_sign_a_lie() -> None:
    place = town()
    other = fork(place, "amy")
    place.do("ada", "rename", entries.Rename("ann"))
    copy = copy_of(place)
    assert copy.hear(head(other, 2, OTHER)) == "lie"
    assert copy.marks.split is None
    assert copy.hear(head(other, 2)) == "split"
    assert copy.marks.split == head(other, 2)


def test_a_head_that_is_ahead_and_not_signed_by_the_broker_stops_nothing() -> None:
    place = town()
    copy = copy_of(place)
    place.do("ada", "rename", entries.Rename("ann"))
    assert copy.hear(head(place, 2, OTHER)) == "unknown"
    assert (copy.marks.owed, copy.marks.split) == (None, None)


def test_an_owner_settles_a_split() -> None:
    place = town()
    other = fork(place, "amy")
    place.do("ada", "rename", entries.Rename("ann"))
    copy = copy_of(place)
    copy.hear(head(other, 2))
    place.do("ada", "settle", entries.Settle(1, [head(other, 2).hash]))
    take(copy, place.log[3:])
    assert copy.marks.split is None
    assert copy.hear(head(other, 2)) == "settled"


def test_it_is_remembered_which_peer_has_confirmed_the_newest_entry_last() -> None:
    place = town()
    copy = copy_of(place)
    newest = head(place, 1)
    assert copy.confirm(newest, "bob", 1_000)
    assert not copy.confirm(newest, "cid", 2_000), "not written again at once"
    assert not copy.confirm(head(place, 0), "dan", CONFIRMED_EVERY_MS * 9), "an older entry is no news"
    assert copy.confirm(newest, "cid", 1_000 + CONFIRMED_EVERY_MS)
    assert copy.marks.confirmed == Confirmed(1, "cid", 1_000 + CONFIRMED_EVERY_MS)
