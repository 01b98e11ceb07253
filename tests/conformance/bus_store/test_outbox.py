"""What is to be sent is sent in order, tried again, given up or expired, and nothing of it is lost on the way."""

from pathlib import Path
from typing import Any

import pytest

from parley.bus import Bounds, MeshStore, OutboxItem, StoreBounds
from parley.core.bus_errors import MessageIdReused, OutboxFull, StoreInputInvalid
from parley.core.limits import BUS_BACKOFF_MS_MAX, BUS_EXPIRED_KEPT, BUS_OUTBOX_MS_MAX
from tests.conformance.bus_store.conftest import MakeStore
from tests.conformance.bus_store.makers import HOUR_MS, NOW, due, enqueued, item, open_store, peer

BINARY = bytes(range(256)) * 3 + b"\0'\xff"


async def test_case_28_what_is_enqueued_comes_back_whole(store: MeshStore) -> None:
    sent = item(1, to=3, payload=BINARY)
    outbox_id = await store.enqueue_outbox(sent, now=NOW)
    expected = OutboxItem(
        outbox_id, sent.peer, sent.message_id, BINARY, sent.digest, 0, NOW, 0, sent.expires_at, None, None
    )
    assert await store.due_outbox(now=NOW, limit=10) == [expected]
    assert await store.list_outbox(limit=10) == [expected]


async def test_case_29_a_message_is_due_at_its_time_and_not_a_millisecond_before(store: MeshStore) -> None:
    outbox_id = await enqueued(store, 1, at=NOW + 1_000)
    assert await due(store, NOW + 999) == []
    assert await due(store, NOW + 1_000) == [outbox_id]


async def test_case_30_messages_to_a_peer_are_due_in_the_order_in_which_they_came(store: MeshStore) -> None:
    ids = [await enqueued(store, number) for number in (5, 3, 9, 1)]
    assert ids == sorted(ids)
    assert await due(store) == ids


async def test_case_31_a_head_that_was_rescheduled_holds_up_its_followers(store: MeshStore) -> None:
    ids = [await enqueued(store, number) for number in range(3)]
    await store.reschedule_outbox(ids[0], now=NOW, not_before=NOW + 50, error="unreachable")
    assert await due(store, NOW + 49) == []
    assert await due(store, NOW + 50) == ids
    await store.reschedule_outbox(ids[1], now=NOW, not_before=NOW + 90, error="unreachable")
    assert await due(store, NOW + 50) == ids[:1]


async def test_case_32_other_peers_are_not_held_up(store: MeshStore) -> None:
    first = await enqueued(store, 1, to=1)
    second = await enqueued(store, 2, to=2)
    await store.reschedule_outbox(first, now=NOW, not_before=NOW + 50, error="unreachable")
    assert await due(store) == [second]
    assert await due(store, to=1) == []
    assert await due(store, to=2) == [second]


async def test_case_33_a_wedged_message_is_not_due_and_its_followers_are(store: MeshStore) -> None:
    ids = [await enqueued(store, number) for number in range(2)]
    assert await store.wedge_outbox(ids[0], reason="too large")
    assert await due(store) == ids[1:]
    assert not await store.wedge_outbox(ids[0], reason="another")
    assert not await store.wedge_outbox(99, reason="unknown")
    (wedged, _) = await store.list_outbox(limit=10)
    assert (wedged.wedged, wedged.attempts) == ("too large", 1)


async def test_case_34_an_unwedged_message_is_back_in_its_place(store: MeshStore) -> None:
    ids = [await enqueued(store, number) for number in range(3)]
    await store.reschedule_outbox(ids[1], now=NOW, not_before=NOW + HOUR_MS, error="unreachable")
    await store.wedge_outbox(ids[1], reason="refused")
    assert await store.unwedge_outbox(ids[1], now=NOW + 1)
    assert await due(store, NOW + 1) == ids
    assert not await store.unwedge_outbox(ids[1], now=NOW)
    assert not await store.unwedge_outbox(99, now=NOW)


async def test_case_35_to_remove_twice_is_true_and_then_false(store: MeshStore) -> None:
    outbox_id = await enqueued(store, 1)
    assert await store.remove_outbox(outbox_id)
    assert not await store.remove_outbox(outbox_id)
    assert await store.list_outbox(limit=10) == []
    assert await enqueued(store, 1) > outbox_id


async def test_case_36_rescheduling_keeps_the_attempts_and_the_error(store: MeshStore) -> None:
    outbox_id = await enqueued(store, 1)
    for attempt, error in enumerate(("timeout", "reset by \ud800 peer"), 1):
        assert await store.reschedule_outbox(outbox_id, now=NOW, not_before=NOW + attempt, error=error)
    (found,) = await store.list_outbox(limit=10)
    assert (found.attempts, found.not_before, found.last_error) == (2, NOW + 2, "reset by \\ud800 peer")
    assert not await store.reschedule_outbox(99, now=NOW, not_before=NOW, error="unknown")


async def test_case_37_an_expired_message_is_not_due_and_is_reported_once(store: MeshStore) -> None:
    first = await enqueued(store, 1, lives_ms=10)
    second = await enqueued(store, 2, lives_ms=20)
    await store.wedge_outbox(first, reason="refused")
    assert await due(store, NOW + 19) == [second]
    assert await due(store, NOW + 20) == []
    assert [each.id for each in await store.expire_outbox(now=NOW + 10)] == [first]
    assert [each.id for each in await store.expire_outbox(now=NOW + 20)] == [second]
    assert await store.expire_outbox(now=NOW + 20) == []
    noted = [(each.id, each.expired_at, each.why) for each in await store.expired_outbox(limit=10)]
    assert noted == [(second, NOW + 20, None), (first, NOW + 10, "refused")]


async def test_case_37_an_expired_head_does_not_hold_up_its_followers(store: MeshStore) -> None:
    head = await enqueued(store, 1, lives_ms=10)
    follower = await enqueued(store, 2)
    await store.reschedule_outbox(head, now=NOW, not_before=NOW + 500, error="unreachable")
    assert await due(store, NOW + 9) == []
    assert await due(store, NOW + 10) == [follower]


async def test_case_37_as_many_notes_of_the_expired_are_kept_as_are_said(make_store: MakeStore) -> None:
    store = make_store(StoreBounds(outbox=Bounds(items_per_peer=2_000)))
    for number in range(BUS_EXPIRED_KEPT + 2):
        await enqueued(store, number, lives_ms=number + 1)
    assert len(await store.expire_outbox(now=NOW + HOUR_MS)) == BUS_EXPIRED_KEPT + 2
    notes = await store.expired_outbox(limit=2 * BUS_EXPIRED_KEPT)
    assert [each.id for each in notes] == list(range(BUS_EXPIRED_KEPT + 2, 2, -1))


@pytest.mark.parametrize(
    ("bounds", "name", "fitting"),
    [(Bounds(items=3), "items", 3), (Bounds(bytes=11), "bytes", 2), (Bounds(items_per_peer=2), "items_per_peer", 2)],
    ids=["case 38: items", "case 39: bytes", "case 40: items of a peer"],
)
async def test_cases_38_to_40_a_full_outbox_refuses_and_has_room_again(
    make_store: MakeStore, bounds: Bounds, name: str, fitting: int
) -> None:
    store = make_store(StoreBounds(outbox=bounds))
    ids = [await enqueued(store, number) for number in range(fitting)]
    with pytest.raises(OutboxFull) as refusal:
        await enqueued(store, 9)
    assert refusal.value.transient
    assert refusal.value.details["bound"] == name
    assert await due(store) == ids
    if name == "items_per_peer":
        await enqueued(store, 8, to=2)
    assert await enqueued(store, 0) == ids[0]  # what is there already takes no room
    await store.remove_outbox(ids[0])
    await enqueued(store, 9)


async def test_cases_38_to_40_messages_that_expired_make_room(make_store: MakeStore) -> None:
    store = make_store(StoreBounds(outbox=Bounds(items=1)))
    await enqueued(store, 1, lives_ms=10)
    await store.expire_outbox(now=NOW + 10)
    await enqueued(store, 2)


async def test_case_41_to_enqueue_a_message_again_is_to_be_told_its_id(store: MeshStore) -> None:
    outbox_id = await enqueued(store, 1)
    await store.reschedule_outbox(outbox_id, now=NOW, not_before=NOW + 5, error="unreachable")
    sealed_anew = item(1)._replace(payload=b"the same, sealed under another nonce")
    assert await store.enqueue_outbox(sealed_anew, now=NOW + 1) == outbox_id
    (found,) = await store.list_outbox(limit=10)
    assert (found.payload, found.attempts) == (b"hello", 1)


@pytest.mark.parametrize("other", [{"payload": b"other"}, {"to": 2}], ids=["content", "peer"])
async def test_case_41_another_message_under_the_same_id_is_refused(store: MeshStore, other: dict[str, Any]) -> None:
    outbox_id = await enqueued(store, 1)
    with pytest.raises(MessageIdReused) as refusal:
        await enqueued(store, 1, **other)
    assert refusal.value.details["outbox_id"] == outbox_id
    assert await due(store) == [outbox_id]


async def test_case_42_no_more_are_answered_than_were_asked_for(store: MeshStore) -> None:
    ids = [await enqueued(store, number, to=number % 2) for number in range(6)]
    assert await due(store, limit=4) == ids[:4]
    assert await due(store, limit=2, to=1) == [ids[1], ids[3]]
    assert [each.id for each in await store.list_outbox(after=ids[1], limit=2)] == ids[2:4]
    with pytest.raises(StoreInputInvalid):
        await store.due_outbox(now=NOW, limit=0)


async def test_case_43_the_next_time_is_that_of_the_first_head_or_expiry(store: MeshStore) -> None:
    assert await store.next_due_at(now=NOW) is None
    head = await enqueued(store, 1, at=NOW + 500)
    await enqueued(store, 2, at=NOW + 100)  # it must wait for its head
    assert await store.next_due_at(now=NOW) == NOW + 500
    await enqueued(store, 3, to=2, at=NOW + 300)
    assert await store.next_due_at(now=NOW) == NOW + 300
    await enqueued(store, 4, to=1, lives_ms=200)
    assert await store.next_due_at(now=NOW) == NOW + 200
    await store.expire_outbox(now=NOW + 200)
    await store.wedge_outbox(head, reason="refused")
    assert await store.next_due_at(now=NOW) == NOW + 100


async def test_case_43_a_peer_that_was_seen_is_waited_for_no_longer(store: MeshStore) -> None:
    ids = [await enqueued(store, number, at=NOW + 500) for number in range(2)]
    other = await enqueued(store, 9, to=2, at=NOW + 500)
    assert await store.hasten_outbox(peer(1), now=NOW + 1)
    assert await due(store, NOW + 1) == ids
    assert not await store.hasten_outbox(peer(1), now=NOW + 1)
    assert await due(store, NOW + 500) == [*ids, other]
    assert {each.attempts for each in await store.list_outbox(limit=10)} == {0}


async def test_case_44_what_is_given_and_answered_is_a_copy(store: MeshStore) -> None:
    buffer = bytearray(b"hello")
    outbox_id = await store.enqueue_outbox(item(1)._replace(payload=buffer), now=NOW)  # pyright: ignore[reportArgumentType]
    buffer[:] = b"HELLO"
    (found,) = await store.due_outbox(now=NOW, limit=1)
    assert found.payload == b"hello"
    assert isinstance(found.payload, bytes)
    with pytest.raises(AttributeError):
        found.attempts = 7  # pyright: ignore[reportAttributeAccessIssue]
    await store.reschedule_outbox(outbox_id, now=NOW, not_before=NOW, error="timeout")
    assert found.attempts == 0


async def test_case_45_the_outbox_survives_a_restart_in_its_order(path: Path) -> None:
    store = open_store(path)
    ids = [await enqueued(store, number, to=number % 2, payload=BINARY) for number in range(5)]
    await store.reschedule_outbox(ids[2], now=NOW, not_before=NOW + 7, error="timeout")
    await store.wedge_outbox(ids[1], reason="refused")
    before = await store.list_outbox(limit=10)
    await store.close()
    store = open_store(path)
    assert await store.list_outbox(limit=10) == before
    assert await due(store, NOW + 6) == [ids[0], ids[3]]
    await store.close()


@pytest.mark.parametrize("lives_ms", [0, -1, BUS_OUTBOX_MS_MAX + 1])
async def test_a_life_that_is_over_or_too_long_is_refused(store: MeshStore, lives_ms: int) -> None:
    with pytest.raises(StoreInputInvalid, match="expires_at"):
        await enqueued(store, 1, lives_ms=lives_ms)
    assert await store.list_outbox(limit=10) == []


async def test_no_wait_is_longer_than_the_longest(store: MeshStore) -> None:
    outbox_id = await enqueued(store, 1, at=NOW + 2 * HOUR_MS, lives_ms=5 * HOUR_MS)
    assert await store.next_due_at(now=NOW) == NOW + BUS_BACKOFF_MS_MAX
    await store.reschedule_outbox(outbox_id, now=NOW + 1, not_before=NOW + 2 * HOUR_MS, error="timeout")
    assert await store.next_due_at(now=NOW) == NOW + BUS_BACKOFF_MS_MAX
