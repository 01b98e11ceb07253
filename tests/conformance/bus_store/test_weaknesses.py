"""The weaknesses of the store that ours began from, each under its number, as far as a store alone can show them.

4, 5, 6 and 8 are about what a bus does with its store.
"""

import asyncio
import shutil
import stat
from collections import Counter
from pathlib import Path

import apsw
import pytest

from parley.bus import Admission, Bounds, MemoryMeshStore, MeshStore, StoreBounds
from parley.bus.store_file import MIGRATIONS, StoreIdentity
from parley.core.bus_errors import OutboxFull, SequenceRefused, StoreForeign, StoreLocked, StoreTooNew, StoreUnavailable
from parley.core.limits import (
    BUS_BACKOFF_MS_MAX,
    BUS_NONCES_KEPT,
    BUS_OUTBOX_MS_MAX,
    BUS_SEQUENCE_BLOCK,
    BUS_SEQUENCE_JUMP_MAX,
)
from tests.conformance.bus_store.conftest import MakeStore
from tests.conformance.bus_store.makers import (
    HOUR_MS,
    ME,
    NOW,
    accepted,
    admit,
    due,
    enqueued,
    item,
    message_id,
    nonce,
    open_store,
    peer,
)
from tests.faults.vfs import Failure, FaultVFS

DAY_MS = 24 * HOUR_MS


async def test_weakness_1_a_key_that_was_made_anew_is_not_given_the_memory_of_the_old_one(path: Path) -> None:
    store = open_store(path)
    await accepted(store, 1)
    await store.close()
    with pytest.raises(StoreForeign):
        open_store(path, identity=StoreIdentity(b"n" * 32, ME.user))
    store = open_store(path)
    assert await store.last_seq(peer(1)) == 1
    await store.close()


async def test_weakness_2_two_connections_with_one_envelope_cannot_both_pass(store: MeshStore) -> None:
    both = await asyncio.gather(admit(store, 1), admit(store, 1))
    assert Counter(each.verdict for each in both) == {"accepted": 1, "replay": 1}
    both = await asyncio.gather(admit(store, 2, by=2, number=2), admit(store, 2, by=3, number=3))
    assert Counter(each.verdict for each in both) == {"accepted": 1, "bad_sequence": 1}


async def test_weakness_3_a_sequence_that_is_refused_is_told_from_one_that_was_taken(store: MeshStore) -> None:
    await accepted(store, 7)
    assert await admit(store, 6) == Admission("bad_sequence", expected=8)


async def test_weakness_7_a_retry_under_a_new_nonce_and_sequence_is_known_by_its_message_id(store: MeshStore) -> None:
    await store.dispatched(await accepted(store, 1, number=42))
    assert await admit(store, 2, by=2, number=42) == Admission("duplicate")
    assert await store.undispatched(limit=10) == []


async def test_weakness_9_a_failed_attempt_its_error_and_its_wait_are_kept(path: Path) -> None:
    store = open_store(path)
    outbox_id = await enqueued(store, 1)
    await store.reschedule_outbox(outbox_id, now=NOW, not_before=NOW + 500, error="connection reset")
    await store.close()
    store = open_store(path)
    (found,) = await store.list_outbox(limit=10)
    assert (found.attempts, found.not_before, found.last_error) == (1, NOW + 500, "connection reset")
    assert await due(store, NOW + 499) == []
    await store.close()


async def test_weakness_10_a_clock_that_jumps_back_stops_nothing_for_longer_than_the_longest_wait(
    store: MeshStore,
) -> None:
    year = 365 * DAY_MS
    outbox_id = await store.enqueue_outbox(item(1)._replace(expires_at=NOW + year + DAY_MS), now=NOW + year)
    await store.reschedule_outbox(outbox_id, now=NOW + year, not_before=NOW + year + 60_000, error="timeout")
    assert await store.next_due_at(now=NOW) == NOW + BUS_BACKOFF_MS_MAX
    assert await due(store, NOW + BUS_BACKOFF_MS_MAX) == [outbox_id]
    (found,) = await store.list_outbox(limit=10)
    assert found.expires_at == NOW + BUS_OUTBOX_MS_MAX
    assert await store.expire_outbox(now=NOW + BUS_OUTBOX_MS_MAX - 1) == []
    assert len(await store.expire_outbox(now=NOW + BUS_OUTBOX_MS_MAX)) == 1


async def test_weakness_10_a_message_is_still_known_after_the_clock_has_jumped_back(store: MeshStore) -> None:
    await accepted(store, 1, now=NOW)
    assert (await admit(store, 2, number=1, now=NOW - 365 * DAY_MS)).verdict == "duplicate"


async def test_weakness_11_a_full_outbox_tells_its_caller_and_throws_nothing_out(make_store: MakeStore) -> None:
    store = make_store(StoreBounds(outbox=Bounds(items=2)))
    ids = [await enqueued(store, number) for number in range(2)]
    with pytest.raises(OutboxFull):
        await enqueued(store, 2)
    assert await due(store) == ids


async def test_weakness_12_what_expires_is_reported_and_can_still_be_asked_for(store: MeshStore) -> None:
    outbox_id = await enqueued(store, 1, lives_ms=1)
    (reported,) = await store.expire_outbox(now=NOW + 1)
    assert (reported.id, reported.payload) == (outbox_id, b"hello")
    (noted,) = await store.expired_outbox(limit=10)
    assert (noted.id, noted.message_id, noted.peer) == (outbox_id, message_id(1), peer(1))


async def test_weakness_13_what_can_never_be_sent_is_wedged_visible_and_can_be_unwedged(store: MeshStore) -> None:
    poison, next_one = await enqueued(store, 1), await enqueued(store, 2)
    await store.wedge_outbox(poison, reason="refused: another user")
    assert await due(store) == [next_one]
    assert [each.wedged for each in await store.list_outbox(limit=10)] == ["refused: another user", None]
    await store.unwedge_outbox(poison, now=NOW)
    assert await due(store) == [poison, next_one]


async def test_weakness_14_two_cannot_draw_from_one_counter(path: Path) -> None:
    store = open_store(path)
    await store.next_out_seq()
    with pytest.raises(StoreLocked):
        open_store(path)
    await store.close()


async def test_weakness_15_a_store_knows_whose_it_is(path: Path) -> None:
    await open_store(path).close()
    with pytest.raises(StoreForeign):
        open_store(path, identity=StoreIdentity(ME.agent, b"another user".ljust(32)))


async def test_weakness_16_after_an_old_backup_is_restored_the_counter_catches_up_with_what_peers_expect(
    path: Path,
) -> None:
    theirs, store = MemoryMeshStore(), open_store(path)
    await store.close()
    backup = path.with_name("backup.db")
    shutil.copy(path, backup)
    store = open_store(path)
    for _ in range(BUS_SEQUENCE_BLOCK + 10):
        sequence = await store.next_out_seq()
    await accepted(theirs, sequence)
    await store.close()
    shutil.copy(backup, path)
    store = open_store(path)
    refusal = await admit(theirs, await store.next_out_seq(), by=9_999, number=9_999)
    assert refusal.verdict == "bad_sequence"
    assert refusal.expected is not None
    assert await store.raise_out_seq(refusal.expected)
    assert (await admit(theirs, await store.next_out_seq())).verdict == "accepted"
    await store.close()


async def test_weakness_16_a_lying_peer_cannot_use_the_counter_up(store: MeshStore) -> None:
    assert await store.next_out_seq() == 1
    for floor in (2**63 - 1, 2**64 - 1, 2 + BUS_SEQUENCE_JUMP_MAX + 1):
        with pytest.raises(SequenceRefused) as refusal:
            await store.raise_out_seq(floor)
        assert refusal.value.details == {"upcoming": 2, "floor": floor}
    assert await store.next_out_seq() == 2
    assert await store.raise_out_seq(3 + BUS_SEQUENCE_JUMP_MAX)


async def test_weakness_17_a_sequence_that_no_file_can_hold_is_refused_as_a_bad_one(store: MeshStore) -> None:
    await accepted(store, 3)
    assert await admit(store, 2**63) == Admission("bad_sequence", expected=4)


async def test_weakness_18_the_mark_of_a_peer_outlives_any_number_of_others(store: MeshStore) -> None:
    await accepted(store, 9, of=0)
    await asyncio.gather(*(accepted(store, 1, of=number, by=100 + number, number=number) for number in range(1, 400)))
    assert await admit(store, 9, of=0, by=1_000, number=1_000) == Admission("bad_sequence", expected=10)


async def test_weakness_19_a_peer_that_evicts_a_nonce_does_not_let_its_envelope_pass(store: MeshStore) -> None:
    await accepted(store, 5, of=1)
    for first in range(1, BUS_NONCES_KEPT + 1, 512):
        await asyncio.gather(*(admit(store, 0, of=2, by=10_000 + first + each) for each in range(512)))
    assert not await store.nonce_seen(nonce(5))
    assert await admit(store, 5, of=1) == Admission("bad_sequence", expected=6)


async def test_weakness_20_what_lies_in_plain_text_is_private_and_leaves_no_trace(path: Path) -> None:
    plain = b"as plain as it was sealed" * 300
    store = open_store(path)
    outbox_id = await enqueued(store, 1, payload=plain)
    assert all(stat.S_IMODE(mode) == 0o600 for mode in modes(path.parent))
    await store.remove_outbox(outbox_id)
    await store.close()
    assert not any(plain[:25] in content for content in contents(path.parent))


async def test_weakness_21_a_store_that_cannot_write_lets_nothing_in_and_tells_who_sends(path: Path) -> None:
    vfs = FaultVFS()
    store = open_store(path, vfs=vfs.name)
    await store.next_out_seq()
    vfs.disk.failure = Failure(vfs.disk.operations + 1, apsw.FullError, for_good=True)
    with pytest.raises(StoreUnavailable) as refusal:
        await admit(store, 1)
    assert refusal.value.transient
    assert refusal.value.details["reason"] == "disk_full"
    with pytest.raises(StoreUnavailable):
        await enqueued(store, 1)
    vfs.disk.failure = None
    await accepted(store, 1)
    await store.close()


async def test_weakness_22_a_file_says_which_schema_it_has(path: Path) -> None:
    await open_store(path).close()
    connection = apsw.Connection(str(path))
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    assert version == len(MIGRATIONS)
    connection.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(StoreTooNew):
        open_store(path)


async def test_weakness_23_a_store_tells_what_is_due_at_a_start_on_discovery_and_by_a_timer(path: Path) -> None:
    store = open_store(path)
    now_due, later = await enqueued(store, 1, to=1), await enqueued(store, 2, to=2, at=NOW + 500)
    await store.close()
    store = open_store(path)
    assert await due(store) == [now_due]
    await store.remove_outbox(now_due)
    assert await store.next_due_at(now=NOW) == NOW + 500
    await store.hasten_outbox(peer(2), now=NOW)
    assert await due(store, to=2) == [later]
    await store.close()


async def test_weakness_24_a_message_whose_handler_did_not_return_is_there_after_a_restart(path: Path) -> None:
    store = open_store(path)
    inbox_id = await accepted(store, 1, dispatching=True)
    await store.close()
    store = open_store(path)
    message = await store.start_dispatch(inbox_id)
    assert message is not None
    assert message.redelivered
    await store.dispatched(inbox_id)
    assert await store.undispatched(limit=10) == []
    await store.close()


def modes(folder: Path) -> list[int]:
    return [each.stat().st_mode for each in folder.iterdir()]


def contents(folder: Path) -> list[bytes]:
    return [each.read_bytes() for each in folder.iterdir()]
