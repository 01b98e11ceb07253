"""No sequence is answered twice, whatever happens between two answers."""

import asyncio
from pathlib import Path

import apsw
import pytest

from parley.bus import MemoryMeshStore, MeshStore
from parley.core.bus_errors import SequenceRefused, StoreUnavailable
from parley.core.limits import BUS_SEQUENCE_BLOCK
from tests.conformance.bus_store.makers import open_store
from tests.faults.vfs import Failure, FaultVFS

LAST = 2**63 - 2
"""The end of a block must be a number that a file can hold, too."""


async def test_case_21_the_counter_of_a_new_store_begins_at_1(store: MeshStore) -> None:
    assert await store.next_out_seq() == 1


async def test_case_22_the_counter_only_rises(store: MeshStore) -> None:
    drawn = [await store.next_out_seq() for _ in range(2 * BUS_SEQUENCE_BLOCK + 1)]
    assert drawn == list(range(1, len(drawn) + 1))


async def test_case_23_sequences_that_are_drawn_at_once_differ(store: MeshStore) -> None:
    drawn = await asyncio.gather(*(store.next_out_seq() for _ in range(3 * BUS_SEQUENCE_BLOCK)))
    assert sorted(drawn) == list(range(1, len(drawn) + 1))


async def test_case_24_after_a_restart_the_counter_is_above_all_that_it_gave(path: Path) -> None:
    highest = 0
    for count in (1, 3, BUS_SEQUENCE_BLOCK, BUS_SEQUENCE_BLOCK + 1):
        store = open_store(path)
        drawn = [await store.next_out_seq() for _ in range(count)]
        assert drawn[0] > highest
        highest = drawn[-1]
        await store.close()


async def test_case_26_raising_never_lowers_the_counter(store: MeshStore) -> None:
    assert await store.next_out_seq() == 1
    assert not await store.raise_out_seq(0)
    assert not await store.raise_out_seq(2)
    assert await store.raise_out_seq(3)
    assert await store.next_out_seq() == 3
    assert await store.raise_out_seq(5 * BUS_SEQUENCE_BLOCK)
    assert not await store.raise_out_seq(4)
    assert await store.next_out_seq() == 5 * BUS_SEQUENCE_BLOCK


async def test_case_26_what_was_raised_stays_raised_over_a_restart(path: Path) -> None:
    store = open_store(path)
    await store.raise_out_seq(10 * BUS_SEQUENCE_BLOCK)
    await store.close()
    store = open_store(path)
    assert await store.next_out_seq() >= 10 * BUS_SEQUENCE_BLOCK
    await store.close()


async def test_case_27_a_block_is_on_disk_before_its_first_sequence_is_used(path: Path) -> None:
    vfs = FaultVFS()
    store = open_store(path, vfs=vfs.name)
    vfs.disk.failure = Failure(vfs.disk.operations + 1, apsw.IOError, for_good=True)
    with pytest.raises(StoreUnavailable):
        await store.next_out_seq()
    vfs.disk.failure = None
    syncs = vfs.disk.counts["sync"]
    assert await store.next_out_seq() == 1
    assert vfs.disk.counts["sync"] > syncs
    operations = vfs.disk.operations
    for _ in range(BUS_SEQUENCE_BLOCK - 1):
        await store.next_out_seq()
    assert vfs.disk.operations == operations  # the rest of the block costs nothing
    await store.next_out_seq()
    assert vfs.disk.operations > operations
    await store.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_the_counter_has_an_end_and_says_so(kind: str, path: Path) -> None:
    if kind == "memory":
        store: MeshStore = MemoryMeshStore()
        store._upcoming = LAST - 1  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
    else:
        await open_store(path).close()
        connection = apsw.Connection(str(path))
        connection.execute("UPDATE counter SET upcoming = ?", (LAST - 1,))
        connection.close()
        store = open_store(path)
    with pytest.raises(SequenceRefused):
        await store.raise_out_seq(LAST + 1)
    assert [await store.next_out_seq(), await store.next_out_seq()] == [LAST - 1, LAST]
    for _ in range(2):
        with pytest.raises(SequenceRefused, match="has come to its end"):
            await store.next_out_seq()
    await store.close()
