"""Whatever happens at once, and whoever gives up, an admission is whole or was not made."""

import asyncio
import contextlib
from collections import Counter

from parley.bus import MeshStore
from tests.conformance.bus_store.makers import admit, nonce, peer


async def test_case_18_of_a_hundred_admissions_of_one_envelope_one_is_accepted(store: MeshStore) -> None:
    admissions = await asyncio.gather(*(admit(store, 1) for _ in range(100)))
    assert Counter(each.verdict for each in admissions) == {"accepted": 1, "replay": 99}
    assert len(await store.undispatched(limit=200)) == 1


async def test_case_19_after_many_sequences_at_once_the_mark_is_the_highest(store: MeshStore) -> None:
    sequences = [(37 * number) % 101 + 1 for number in range(101)]
    admissions = await asyncio.gather(*(admit(store, each) for each in sequences))
    assert await store.last_seq(peer(1)) == max(sequences) == 101
    taken = [sequence for sequence, each in zip(sequences, admissions, strict=True) if each.verdict == "accepted"]
    assert taken == sorted(taken)
    assert len(await store.undispatched(limit=200)) == len(taken)


async def test_case_20_an_admission_whose_caller_is_cancelled_is_whole_or_was_not_made(store: MeshStore) -> None:
    made = 0
    for sequence in range(1, 25):
        task = asyncio.ensure_future(admit(store, sequence))
        for _ in range(sequence % 6):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        seen = await store.nonce_seen(nonce(sequence))
        made += seen
        assert (await store.last_seq(peer(1)) == sequence) == seen
        assert len(await store.undispatched(limit=100)) == made
    assert 0 < made < 24
