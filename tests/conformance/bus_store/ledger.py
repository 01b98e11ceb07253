"""What a store answered, kept outside of it, and what is wrong with the store that is found after a crash.

``live`` uses a store and tells of each answer as soon as it has it, a line each; what may have happened although no
answer came is told before it is asked for.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable

from parley.bus import MeshStore
from tests.conformance.bus_store.makers import NOW, admit, due, enqueued, message_id, peer

Say = Callable[[str, int], None]


async def live(store: MeshStore, me: int, rng: random.Random, say: Say) -> None:
    """One turn of peer ``me``: something of everything that a bus does."""
    sequence = (await store.last_seq(peer(me)) or 0) + 1
    number = me * 1_000_000 + sequence
    say("sequence", await store.next_out_seq())
    admission = await admit(store, sequence, of=me, by=number, number=number)
    if admission.verdict != "accepted" or admission.inbox_id is None:
        return
    say("accepted", number)
    say("queuing", number)
    outbox_id = await enqueued(store, number, to=me)
    say("queued", number)
    if rng.random() < 0.5:
        say("dispatching", number)
        await store.dispatched(admission.inbox_id)
        say("dispatched", number)
    if rng.random() < 0.5:
        say("removing", number)
        await store.remove_outbox(outbox_id)
        say("removed", number)


class Ledger:
    """All that was told, over any number of lives."""

    def __init__(self) -> None:
        self._told: defaultdict[str, list[int]] = defaultdict(list)

    def tell(self, what: str, number: int) -> None:
        self._told[what].append(number)

    def read(self, lines: Iterable[str]) -> None:
        """Lines of another process."""
        for line in lines:
            what, number = line.split()
            self.tell(what, int(number))

    def __len__(self) -> int:
        return sum(map(len, self._told.values()))

    async def problems(self, store: MeshStore) -> list[str]:
        """What the store forgot, repeats or brought back."""
        told = {what: set(numbers) for what, numbers in self._told.items()}
        sequences = self._told["sequence"]
        found = [] if len(told.get("sequence", set())) == len(sequences) else ["a sequence was answered twice"]
        drawn = await store.next_out_seq()
        found += [f"sequence {drawn} after {max(sequences)}"] if sequences and drawn <= max(sequences) else []
        found += await self._unremembered(store, told.get("accepted", set()))
        inbox = {each.message_id for each in await store.undispatched(limit=10_000)}
        outbox = {each.message_id for each in await store.list_outbox(limit=10_000)}
        found += _box("inbox", inbox, told, kept="accepted", going="dispatching", gone="dispatched")
        found += _box("outbox", outbox, told, kept="queued", going="removing", gone="removed")
        await due(store, NOW)
        return found

    async def _unremembered(self, store: MeshStore, accepted: set[int]) -> list[str]:
        """Sends the newest envelope of each peer again, as somebody would who had captured it; and then the message."""
        found: list[str] = []
        newest = {number // 1_000_000: number for number in sorted(accepted)}
        for me, number in newest.items():
            sequence = number % 1_000_000
            captured = await admit(store, sequence, of=me, by=number, number=number)
            if captured.verdict != "replay":
                found.append(f"the captured envelope {number} was {captured.verdict}")
            known = await store.last_seq(peer(me)) or 0
            again = await admit(store, known + 1, of=me, by=-number - known, number=number)
            if again.verdict != "duplicate":
                found.append(f"the repeated message {number} was {again.verdict}")
        return found


def _box(name: str, there: set[bytes], told: dict[str, set[int]], *, kept: str, going: str, gone: str) -> list[str]:
    must = told.get(kept, set()) - told.get(going, set())
    must_not = told.get(gone, set())
    lost = [number for number in must if message_id(number) not in there]
    back = [number for number in must_not if message_id(number) in there]
    return [f"the {name} lost {number}" for number in lost] + [f"the {name} still has {number}" for number in back]
