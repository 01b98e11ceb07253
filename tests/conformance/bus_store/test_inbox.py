"""What was accepted waits until its handler has returned, is known when it comes again, and never outgrows its room."""

from pathlib import Path

import pytest

from parley.bus import Admission, Bounds, CallLimit, MemoryMeshStore, MeshStore, StoreBounds, Undispatched
from parley.core.bus_errors import StoreInputInvalid
from parley.core.limits import BUS_DISPATCHES_MAX, BUS_MESSAGE_ID_MS, BUS_OUTBOX_MS_MAX
from tests.conformance.bus_store.conftest import MakeStore
from tests.conformance.bus_store.makers import NOW, accepted, admit, certificate, message_id, nonce, open_store, peer


async def test_an_accepted_message_stays_until_it_is_dispatched(store: MeshStore) -> None:
    inbox_id = await accepted(store, 1, payload=b"\0body\xff")
    expected = Undispatched(inbox_id, peer(1), message_id(1), b"\0body\xff", NOW, 0, False)
    assert await store.undispatched(limit=10) == [expected]
    assert await store.dispatched(inbox_id)
    assert await store.undispatched(limit=10) == []
    assert not await store.dispatched(inbox_id)


async def test_messages_wait_in_the_order_in_which_they_were_accepted(store: MeshStore) -> None:
    ids = [await accepted(store, number, of=number % 3) for number in range(1, 8)]
    assert [each.id for each in await store.undispatched(limit=10)] == ids == sorted(ids)
    assert [each.id for each in await store.undispatched(after=ids[2], limit=2)] == ids[3:5]


async def test_a_message_that_comes_again_is_a_duplicate_and_advances_mark_and_nonce(store: MeshStore) -> None:
    inbox_id = await accepted(store, 1)
    assert await admit(store, 2, number=1) == Admission("duplicate")
    assert await store.last_seq(peer(1)) == 2
    assert await store.nonce_seen(nonce(2))
    await store.dispatched(inbox_id)
    assert await admit(store, 3, number=1) == Admission("duplicate")
    assert await store.undispatched(limit=10) == []


async def test_the_same_id_of_another_peer_is_another_message(store: MeshStore) -> None:
    await accepted(store, 1, of=1, number=5)
    await accepted(store, 1, of=2, by=2, number=5)


async def test_an_id_is_known_for_a_day_longer_than_its_sender_can_repeat_it(store: MeshStore) -> None:
    assert BUS_MESSAGE_ID_MS == BUS_OUTBOX_MS_MAX + 24 * 3600 * 1000
    await accepted(store, 1)
    last = NOW + BUS_MESSAGE_ID_MS - 1
    assert (await admit(store, 2, number=1, now=last)).verdict == "duplicate"
    await accepted(store, 3, number=1, now=last + 1)
    assert (await admit(store, 4, number=1, now=last + 2)).verdict == "duplicate"


@pytest.mark.parametrize("bounds", [Bounds(items=1), Bounds(bytes=9), Bounds(items_per_peer=1)])
async def test_a_full_inbox_changes_nothing_so_the_same_envelope_may_come_again(
    make_store: MakeStore, bounds: Bounds
) -> None:
    store = make_store(StoreBounds(inbox=bounds))
    inbox_id = await accepted(store, 1)
    limits = [CallLimit(certificate(1), 1)]
    assert await admit(store, 2, call_limits=limits) == Admission("full")
    assert await store.last_seq(peer(1)) == 1
    assert not await store.nonce_seen(nonce(2))
    await store.dispatched(inbox_id)
    await accepted(store, 2, call_limits=limits)


async def test_a_duplicate_needs_no_room(make_store: MakeStore) -> None:
    store = make_store(StoreBounds(inbox=Bounds(items=1)))
    await accepted(store, 1)
    assert (await admit(store, 2, number=1)).verdict == "duplicate"


async def test_one_peer_leaves_room_for_others(make_store: MakeStore) -> None:
    store = make_store(StoreBounds(inbox=Bounds(items_per_peer=1)))
    await accepted(store, 1, of=1)
    assert (await admit(store, 2, of=1)).verdict == "full"
    await accepted(store, 3, of=2)


async def test_the_first_dispatch_counts_with_the_admission(store: MeshStore) -> None:
    await accepted(store, 1, dispatching=True)
    await accepted(store, 2)
    first, second = await store.undispatched(limit=10)
    assert (first.dispatches, second.dispatches) == (1, 0)
    again, fresh = await store.start_dispatch(first.id), await store.start_dispatch(second.id)
    assert again is not None
    assert fresh is not None
    assert (again.dispatches, again.redelivered) == (2, True)
    assert (fresh.dispatches, fresh.redelivered) == (1, False)
    assert await store.start_dispatch(99) is None


async def test_a_message_whose_handler_never_returns_is_wedged_after_five_times(store: MeshStore) -> None:
    inbox_id = await accepted(store, 1)
    for _ in range(BUS_DISPATCHES_MAX):
        message = await store.start_dispatch(inbox_id)
        assert message is not None
        assert not message.wedged
    for _ in range(2):
        message = await store.start_dispatch(inbox_id)
        assert message is not None
        assert (message.wedged, message.dispatches) == (True, BUS_DISPATCHES_MAX)
    assert await store.undispatched(limit=10) == [message]
    assert await store.unwedge_undispatched(inbox_id)
    assert not await store.unwedge_undispatched(inbox_id)
    message = await store.start_dispatch(inbox_id)
    assert message is not None
    assert (message.wedged, message.dispatches) == (False, 1)
    assert await store.dispatched(inbox_id)
    assert not await store.unwedge_undispatched(inbox_id)


async def test_what_was_left_at_a_stop_is_listed_after_it_with_what_was_tried(path: Path) -> None:
    store = open_store(path)
    tried = await accepted(store, 1, payload=b"tried", dispatching=True)
    waiting = await accepted(store, 2, payload=b"waiting")
    await store.dispatched(await accepted(store, 3))
    await store.close()
    store = open_store(path)
    assert [(each.id, each.payload) for each in await store.undispatched(limit=10)] == [
        (tried, b"tried"),
        (waiting, b"waiting"),
    ]
    again, fresh = await store.start_dispatch(tried), await store.start_dispatch(waiting)
    assert again is not None
    assert again.redelivered
    assert fresh is not None
    assert not fresh.redelivered
    assert (await admit(store, 4, number=3)).verdict == "duplicate"
    await store.close()


async def test_no_more_is_accepted_under_a_certificate_than_its_limit(store: MeshStore) -> None:
    limits = [CallLimit(certificate(1), 2), CallLimit(certificate(2), 10)]
    await accepted(store, 1, call_limits=limits)
    assert (await admit(store, 2, number=1, call_limits=limits)).verdict == "duplicate"  # is no call
    assert (await admit(store, 2, number=2, call_limits=limits)).verdict == "replay"
    await accepted(store, 3, call_limits=limits)
    assert await admit(store, 4, call_limits=limits) == Admission("spent")
    assert await store.last_seq(peer(1)) == 3
    assert not await store.nonce_seen(nonce(4))
    await accepted(store, 4, call_limits=limits[1:])


async def test_calls_are_counted_for_the_certificate_and_not_for_the_peer(store: MeshStore) -> None:
    await accepted(store, 1, of=1, call_limits=[CallLimit(certificate(1), 1)])
    assert (await admit(store, 2, of=2, call_limits=[CallLimit(certificate(1), 1)])).verdict == "spent"
    await accepted(store, 2, of=2, call_limits=[CallLimit(certificate(2), 1)])


async def test_a_limit_of_none_lets_nothing_pass(store: MeshStore) -> None:
    assert (await admit(store, 1, call_limits=[CallLimit(certificate(1), 0)])).verdict == "spent"


async def test_what_one_certificate_refuses_is_not_counted_for_another(store: MeshStore) -> None:
    spent, whole = CallLimit(certificate(1), 0), CallLimit(certificate(2), 1)
    assert (await admit(store, 1, call_limits=[whole, spent])).verdict == "spent"
    await accepted(store, 1, call_limits=[whole])


async def test_calls_stay_counted_over_a_restart(path: Path) -> None:
    limits = [CallLimit(certificate(1), 1)]
    store = open_store(path)
    await accepted(store, 1, call_limits=limits)
    await store.close()
    store = open_store(path)
    assert (await admit(store, 2, call_limits=limits)).verdict == "spent"
    await store.close()


async def test_a_certificate_that_is_limited_twice_is_refused(store: MeshStore) -> None:
    with pytest.raises(StoreInputInvalid, match="limited twice"):
        await admit(store, 1, call_limits=[CallLimit(certificate(1), 1), CallLimit(certificate(1), 2)])


async def test_ids_that_are_too_old_leave_the_file(path: Path) -> None:
    store = open_store(path)
    for number in range(1, 7):
        await accepted(store, number)
    for number in range(7, 11):
        await accepted(store, number, now=NOW + BUS_MESSAGE_ID_MS)
    assert await store._run(  # pyright: ignore[reportPrivateUsage]
        lambda db: db.execute("SELECT count(*) FROM message_id").fetchall()
    ) == [(4,)]
    await store.close()


async def test_the_memory_store_keeps_no_more_ids_of_a_peer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.bus.memory_store.BUS_MEMORY_MESSAGE_IDS_MAX", 3)
    store = MemoryMeshStore()
    for number in range(1, 5):
        await accepted(store, number)
    assert (await admit(store, 5, number=2)).verdict == "duplicate"
    await accepted(store, 6, number=1)


async def test_what_is_not_kept_is_judged_and_remembered_and_has_no_place_in_the_inbox(make_store: MakeStore) -> None:
    store = make_store(StoreBounds(inbox=Bounds(items=1)))
    limits = [CallLimit(certificate(1), 1)]
    assert await admit(store, 1, call_limits=limits, kept=False) == Admission("accepted")
    assert await store.undispatched(limit=10) == []
    assert await admit(store, 1, kept=False) == Admission("replay")
    assert await admit(store, 2, number=1, kept=False) == Admission("duplicate")
    assert (await admit(store, 2, by=3, kept=False)).verdict == "bad_sequence"
    assert await admit(store, 4, call_limits=limits, kept=False) == Admission("spent")
    await accepted(store, 5)
    assert await admit(store, 6) == Admission("full")
    assert await admit(store, 6, kept=False) == Admission("accepted")
