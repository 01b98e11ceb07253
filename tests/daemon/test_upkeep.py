"""What a daemon does by itself so that its inbox has room and its files stay small."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from parley.daemon.databases import open_outbox
from parley.daemon.held import mark_vacuumed
from parley.daemon.inbox.events import events_after
from parley.daemon.inbox.reading import unseen_and_sealed
from parley.daemon.joining import create_mesh
from tests.broker.process import Process, broker
from tests.daemon.served_daemon import MakeServed, ServedDaemon

MIB = 1024 * 1024
DAY_MS = 24 * 3_600_000


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with broker(tmp_path_factory.mktemp("shared") / "broker", "--open-creation") as serving:
        yield serving


async def joined(make_served: MakeServed, name: str, invite: str, **tables: Any) -> ServedDaemon:
    served = await make_served(name=name, empty=True, **tables)
    answer = await served.unix.post("/v1/mesh/join", json={"invite": invite, "name": name})
    assert answer.status_code == 200, answer.text
    await served.until(lambda: bool(served.daemon.mesh(None).membership.mesh_keys))
    return served


async def health(served: ServedDaemon) -> dict[str, Any]:
    return (await served.unix.get("/v1/health")).json()


async def test_a_full_inbox_forgets_what_was_seen_and_the_rest_waits_at_the_broker(
    process: Process, make_served: MakeServed
) -> None:
    limits = {"inbox": {"bytes_max": MIB}}
    alice = await joined(make_served, "alice", (await create_mesh(process.url, "full", "full", None)).invite)
    invite = (await alice.unix.post("/v1/mesh/invite", json={})).json()["invite"]
    bob = await joined(make_served, "bob", invite, **limits)
    for number in range(24):
        answer = await alice.send(to="bob", message=f"{number} " + "x" * 50_000, client_message_id=f"m-{number}")
        assert answer.status_code == 202
    await alice.until(lambda: alice.states() == {"done": 24})
    await bob.until(lambda: bob.daemon.capacity.inbox_share() >= 1)
    before = await health(bob)
    assert (before["degraded"], before["unseen"], before["inbox_share"] >= 1) == (True, 21, True)
    assert "inbox is full" in before["problems"][0]
    seen = {each["client_message_id"] for each in (await bob.unix.get("/v1/inbox")).json()["items"]}
    assert len(seen) == 21
    await bob.until(lambda: bob.daemon.capacity.inbox_share() < 0.95)
    told = bob.daemon.store.read_inbox(lambda db: events_after(db, 0, 1_000))
    assert {"share", "forgotten", "full"} <= set(next(each.data for each in told if each.kind == "inbox_pressure_high"))
    await bob.close()  # so that the broker need not wait for its leases to end
    again = await make_served(name="bob", empty=True, **limits)
    await again.until(lambda: again.daemon.store.read_inbox(unseen_and_sealed)[0] == 3)
    items = (await again.unix.get("/v1/inbox?unread_only=true")).json()["items"]
    assert {each["client_message_id"] for each in items} == {f"m-{number}" for number in range(24)} - seen


async def test_each_week_the_files_are_compacted(make_served: MakeServed) -> None:
    served = await make_served(started=False)
    store = served.daemon.store

    def looked_at() -> list[Any]:
        return [part.read(lambda db: db.execute("SELECT vacuumed_at FROM held").fetchall()) for part in store.parts]

    await served.daemon.upkeep()
    first = looked_at()
    assert all(each > [(0,)] for each in first)
    await served.daemon.upkeep()
    assert looked_at() == first
    long_ago = served.clock.now_ms() - 8 * DAY_MS
    for part in store.parts:
        await part.writer.run(lambda db: mark_vacuumed(db, now_ms=long_ago))
    commits = [part.writer.writer.commits for part in store.parts]
    await served.daemon.upkeep()
    assert all(now >= before for now, before in zip(looked_at(), first, strict=True))
    assert [part.writer.writer.commits for part in store.parts] > commits
    assert b"upkeep_failed" not in served.log.getvalue()


def test_a_large_file_is_compacted_at_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.daemon.databases.VACUUM_BYTES_MAX", 0)
    path = tmp_path / "outbox.db"
    with closing(open_outbox(path, now_ms=1)) as outbox:
        mark_vacuumed(outbox, now_ms=DAY_MS)
    for now_ms, vacuumed_at in ((7 * DAY_MS, DAY_MS), (8 * DAY_MS, 8 * DAY_MS)):
        with closing(open_outbox(path, now_ms=now_ms)) as outbox:
            assert outbox.execute("SELECT vacuumed_at FROM held").fetchall() == [(vacuumed_at,)]
