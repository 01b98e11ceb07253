"""The mark of a peer only rises."""

import pytest

from parley.bus import Admission, MeshStore
from tests.conformance.bus_store.makers import accepted, admit, nonce, peer

LARGEST = 2**63 - 1


async def test_case_9_the_first_sequence_may_be_1(store: MeshStore) -> None:
    await accepted(store, 1)
    assert await store.last_seq(peer(1)) == 1


async def test_case_10_sequence_0_is_refused_and_1_is_expected(store: MeshStore) -> None:
    assert await admit(store, 0) == Admission("bad_sequence", expected=1)


async def test_case_11_an_equal_sequence_is_refused_and_the_next_is_expected(store: MeshStore) -> None:
    await accepted(store, 5)
    assert await admit(store, 5, by=6, number=6) == Admission("bad_sequence", expected=6)


async def test_case_12_a_lower_sequence_is_refused(store: MeshStore) -> None:
    await accepted(store, 5)
    assert await admit(store, 4) == Admission("bad_sequence", expected=6)


async def test_case_13_a_gap_is_accepted(store: MeshStore) -> None:
    await accepted(store, 1)
    await accepted(store, 1_000_000)
    assert await store.last_seq(peer(1)) == 1_000_000


async def test_case_14_each_peer_has_a_mark_of_its_own(store: MeshStore) -> None:
    await accepted(store, 7, of=1)
    await accepted(store, 3, of=2)
    assert (await store.last_seq(peer(1)), await store.last_seq(peer(2))) == (7, 3)


async def test_case_15_an_unknown_peer_has_no_mark(store: MeshStore) -> None:
    assert await store.last_seq(peer(1)) is None
    await admit(store, 0)
    assert await store.last_seq(peer(1)) is None


async def test_case_16_the_largest_sequence_is_2_to_the_63_less_1(store: MeshStore) -> None:
    for too_large in (LARGEST + 1, 2**64 - 1):
        assert await admit(store, too_large) == Admission("bad_sequence", expected=1)
    await accepted(store, LARGEST, by=1)
    assert await store.last_seq(peer(1)) == LARGEST
    assert (await admit(store, LARGEST + 1, by=2)).verdict == "bad_sequence"


@pytest.mark.parametrize("refused", [0, 4, 5, LARGEST + 1])
async def test_case_17_a_bad_sequence_leaves_the_mark_and_uses_up_its_nonce(store: MeshStore, refused: int) -> None:
    await accepted(store, 5)
    assert (await admit(store, refused, by=99, number=99)).verdict == "bad_sequence"
    assert await store.last_seq(peer(1)) == 5
    assert await store.nonce_seen(nonce(99))
    assert len(await store.undispatched(limit=10)) == 1
    await accepted(store, 6, number=99)  # the message itself was not taken to be known
