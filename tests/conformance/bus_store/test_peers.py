"""Who was met: remembered by every store, and by a file across restarts."""

from pathlib import Path

import pytest

from parley.bus import MeshStore
from parley.core.bus_errors import StoreInputInvalid
from parley.core.limits import BUS_PEERS_KEPT
from tests.conformance.bus_store.makers import NOW, known, open_store


async def test_a_peer_is_known_as_it_was_last_seen(store: MeshStore) -> None:
    await store.remember_peer(known(1, NOW, "build", "alerts"))
    await store.remember_peer(known(2, NOW + 1))
    await store.remember_peer(known(1, NOW + 2, "build"))
    assert await store.known_peers(since=NOW) == [known(1, NOW + 2, "build"), known(2, NOW + 1)]


async def test_who_was_not_seen_since_is_left_out(store: MeshStore) -> None:
    await store.remember_peer(known(1, NOW))
    assert await store.known_peers(since=NOW + 1) == []


async def test_of_too_many_peers_the_one_that_was_seen_first_is_forgotten(store: MeshStore) -> None:
    for number in range(BUS_PEERS_KEPT + 1):
        await store.remember_peer(known(number, NOW + number))
    remembered = await store.known_peers(since=0)
    assert len(remembered) == BUS_PEERS_KEPT
    assert known(0) not in remembered


@pytest.mark.parametrize(
    "wrong", [{"fingerprint": b"short"}, {"agent_key": b""}, {"seen_at": -1}, {"topics": ("two\nlines",)}]
)
async def test_what_is_no_peer_is_refused(store: MeshStore, wrong: dict[str, object]) -> None:
    with pytest.raises(StoreInputInvalid):
        await store.remember_peer(known(1)._replace(**wrong))  # pyright: ignore[reportArgumentType]


async def test_a_file_knows_its_peers_after_a_restart(path: Path) -> None:
    store = open_store(path)
    assert store.durable
    await store.remember_peer(known(1, NOW, "build"))
    await store.close()
    store = open_store(path)
    assert await store.known_peers(since=0) == [known(1, NOW, "build")]
    await store.close()
