"""The chain of an audit log, without a store: it holds, or it is told where it does not."""

from parley.core.hash_chain import GENESIS, Entry, entry_hash, first_misfit


def chain(count: int) -> list[Entry]:
    entries: list[Entry] = []
    for number in range(1, count + 1):
        said = (number, number * 1000, "test", "ann", "{}", entries[-1].hash if entries else GENESIS)
        entries.append(Entry(*said, entry_hash("mesh", *said)))
    return entries


def test_a_chain_that_was_not_touched_holds() -> None:
    assert first_misfit("mesh", []) is None
    assert first_misfit("mesh", chain(4)) is None


def test_the_first_entry_that_does_not_fit_is_named() -> None:
    entries = chain(4)
    assert first_misfit("another", entries) == 1
    assert first_misfit("mesh", [entries[0], *entries[2:]]) == 2
    assert first_misfit("mesh", [*entries[:2], entries[2]._replace(actor="eve"), entries[3]]) == 3
    assert first_misfit("mesh", [*entries[:3], entries[3]._replace(hash=GENESIS)]) == 4
