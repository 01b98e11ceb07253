"""What a nonce may be used for, and how many are remembered."""

import asyncio

import pytest

from parley.bus import MeshStore
from parley.core.bus_errors import StoreInputInvalid
from parley.core.limits import BUS_NONCES_KEPT
from tests.conformance.bus_store.makers import NOW, accepted, admit, message_id, nonce, peer


async def fill(store: MeshStore, count: int) -> None:
    """Admits and handles this many messages, some at a time since the inbox has room for no more."""
    for first in range(1, count + 1, 512):
        numbers = range(first, min(first + 512, count + 1))
        inbox_ids = await asyncio.gather(*(accepted(store, number) for number in numbers))
        assert all(await asyncio.gather(*map(store.dispatched, inbox_ids)))


async def test_case_1_a_fresh_nonce_is_accepted(store: MeshStore) -> None:
    assert not await store.nonce_seen(nonce(1))
    assert (await admit(store, 1)).verdict == "accepted"
    assert await store.nonce_seen(nonce(1))


async def test_case_2_a_known_nonce_is_a_replay(store: MeshStore) -> None:
    await accepted(store, 1)
    assert (await admit(store, 2, by=1)).verdict == "replay"


async def test_case_3_a_nonce_that_another_peer_used_is_a_replay(store: MeshStore) -> None:
    await accepted(store, 1, of=1)
    assert (await admit(store, 1, of=2)).verdict == "replay"
    assert await store.last_seq(peer(2)) is None


async def test_case_4_a_replay_leaves_the_mark_and_the_inbox_as_they_are(store: MeshStore) -> None:
    await accepted(store, 1)
    before = await store.undispatched(limit=10)
    assert (await admit(store, 9, by=1, number=9)).verdict == "replay"
    assert await store.last_seq(peer(1)) == 1
    assert await store.undispatched(limit=10) == before


async def test_cases_5_to_7_exactly_4096_nonces_are_kept_and_the_oldest_goes_first(store: MeshStore) -> None:
    assert BUS_NONCES_KEPT == 4_096
    await fill(store, BUS_NONCES_KEPT)
    for number in (1, 2, BUS_NONCES_KEPT):
        assert (await admit(store, 2 * BUS_NONCES_KEPT, by=number)).verdict == "replay"  # and is not made younger
    await accepted(store, BUS_NONCES_KEPT + 1)
    assert not await store.nonce_seen(nonce(1))
    assert await store.nonce_seen(nonce(2))
    assert (await admit(store, 1, by=BUS_NONCES_KEPT + 2)).verdict == "bad_sequence"  # is remembered as well
    assert not await store.nonce_seen(nonce(2))
    assert await store.nonce_seen(nonce(3))


@pytest.mark.parametrize("wrong", [b"", b"n" * 23, b"n" * 25])
async def test_case_8_a_nonce_of_another_length_is_refused(store: MeshStore, wrong: bytes) -> None:
    with pytest.raises(StoreInputInvalid, match=f"nonce has {len(wrong)} bytes, not 24"):
        await store.admit(peer(1), wrong, 1, message_id(1), b"", now=NOW)
    with pytest.raises(StoreInputInvalid):
        await store.nonce_seen(wrong)
    assert await store.last_seq(peer(1)) is None


@pytest.mark.parametrize("argument", ["peer", "message_id", "payload", "sequence", "now"])
async def test_case_8_so_is_everything_else_of_a_wrong_size(store: MeshStore, argument: str) -> None:
    wrong = {"peer": b"p", "message_id": b"m", "payload": bytes(16 * 1024 * 1024 + 1), "sequence": -1, "now": -1}
    given = {"peer": peer(1), "nonce": nonce(1), "sequence": 1, "message_id": message_id(1), "payload": b"", "now": NOW}
    with pytest.raises(StoreInputInvalid) as refusal:
        await store.admit(**{**given, argument: wrong[argument]})
    assert refusal.value.details["argument"] == argument
    assert not await store.nonce_seen(nonce(1))
