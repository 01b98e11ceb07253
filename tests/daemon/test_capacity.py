"""The outbox and the inbox are bounded by what they hold, and give the disk back what they no longer do."""

import asyncio
from collections.abc import Callable
from contextlib import closing, suppress

import apsw

from parley.wire.daemon_home import DaemonHome
from tests.daemon.served_daemon import MakeServed, ServedDaemon
from tests.mesh_fixtures import FOLDER
from tests.workspace.databases import run_script

MIB = 1024 * 1024
LARGE = "x" * 40_000
SECONDS = 60


async def fill(served: ServedDaemon) -> list[str]:
    """Sends until the outbox takes nothing more; the ids that it took."""
    taken: list[str] = []
    async with asyncio.timeout(SECONDS):
        while True:
            answer = await served.send(message=LARGE)
            if answer.status_code == 507:
                return taken
            assert answer.status_code == 202, answer.text
            taken.append(answer.json()["id"])


async def give_up(served: ServedDaemon, taken: list[str]) -> None:
    """Drops all these messages and forgets what they said."""
    for each in taken:
        assert (await served.unix.post("/v1/outbox/drop", json={"id": each, "force": True})).status_code == 200
    await prune(served, len(taken))


async def prune(served: ServedDaemon, count: int) -> None:
    pruned = 0
    async with asyncio.timeout(SECONDS):
        while pruned < count:  # what was given up in this very millisecond is not yet old
            pruned += (await served.unix.post("/v1/outbox/prune", json={"older_than_days": 0})).json()["pruned"]


async def becomes(condition: Callable[[], bool]) -> bool:
    """Whether it is so before long; other threads write the files."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            while not condition():  # noqa: ASYNC110 - a file tells nobody that it has changed
                await asyncio.sleep(0.05)
    return condition()


async def test_m7_a_full_outbox_that_is_pruned_takes_messages_again(make_served: MakeServed) -> None:
    limits = {"outbox": {"bytes_max": MIB}}
    served = await make_served(**limits)
    taken = await fill(served)
    assert len(taken) > 5
    await give_up(served, taken)
    assert (await served.send(message="small")).status_code == 202
    taken = await fill(served)
    await served.close()
    again = await make_served(empty=True, **limits)
    assert (await again.send(message=LARGE)).status_code == 507
    await give_up(again, taken)
    await again.close()
    last = await make_served(empty=True, **limits)
    assert (await last.send(message=LARGE)).status_code == 202


async def test_m7_many_small_messages_that_are_pruned_make_room_too(make_served: MakeServed) -> None:
    served = await make_served(outbox={"bytes_max": MIB})
    taken: list[str] = []
    while (answer := await served.send(message="x" * 1_500)).status_code == 202:
        taken.append(answer.json()["id"])
    assert answer.status_code == 507
    await give_up(served, taken)
    assert (await served.send(message="x" * 1_500)).status_code == 202


async def test_m7_an_outbox_is_not_filled_beyond_its_limit_between_two_looks(make_served: MakeServed) -> None:
    """What is let in counts at once; how full the outbox is in truth is looked at once a second only."""
    served = await make_served(outbox={"bytes_max": MIB})
    await fill(served)
    assert served.daemon.capacity.outbox_share() <= 1


def stored_by_674d676(home: DaemonHome, count: int) -> None:
    """The databases of a daemon of that commit, with so many large messages that were sent and that arrived."""
    for path, name, version in ((home.outbox, "outbox", 1), (home.inbox, "inbox", 4)):
        with closing(apsw.Connection(str(path))) as connection:
            run_script(connection, (FOLDER / name / f"v{version}.sql").read_text(encoding="utf-8"))
            columns = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({name})")]
            copied = {
                "seq": "?1",
                "id": "id || ?1",
                "client_message_id": "client_message_id || ?1",
                "payload": "zeroblob(40000)",
                "sealed": "zeroblob(40000)" if name == "outbox" else "sealed",
                "body": "CAST(zeroblob(40000) AS TEXT)",
            }
            chosen = ", ".join(copied.get(column, column) for column in columns)
            which = "status = 'done'" if name == "outbox" else "seq = 1"
            sql = f"INSERT INTO {name} ({', '.join(columns)}) SELECT {chosen} FROM {name} WHERE {which} LIMIT 1"
            for number in range(count):
                connection.execute(sql, (100 + number,))


async def test_m7_the_files_give_back_what_they_no_longer_hold(make_served: MakeServed) -> None:
    served = await make_served(started=False)
    await served.close()
    files = (served.home.outbox, served.home.inbox)
    for path in files:
        for part in ("", "-wal", "-shm"):
            path.with_name(path.name + part).unlink(missing_ok=True)
    stored_by_674d676(served.home, 30)
    assert all(file.stat().st_size > MIB for file in files)
    again = await make_served(outbox={"prune_days": 36_500}, inbox={"retention_days": 3_650})
    await prune(again, 30)
    assert (await again.unix.delete("/v1/inbox?all=true")).json()["removed"] == 33
    for file in files:
        assert await becomes(lambda file=file: file.stat().st_size < MIB // 2), file.stat().st_size
    assert (await again.unix.get("/v1/health")).json()["ok"] is True
