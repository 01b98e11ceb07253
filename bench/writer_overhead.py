"""What the writer costs a write: CPU beside a bare loop that does the same inserts in the same transactions.

``python -m bench.writer_overhead`` prints JSON: microseconds of CPU per write (median over rounds, all threads) at
several batch sizes, for the bare ``apsw`` loop, for ``run_batch`` and for the whole way over the thread to futures.
The three take turns within each round, so that a change of the machine's mood hits them alike.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import uvloop

from parley.sqlite import Write, open_writer, run_batch
from parley.sqlite.async_writer import AsyncWriter

BATCH_SIZES = (1, 8, 64)
BODY = "y" * 512
INSERT = "INSERT INTO message(topic, body) VALUES (?, ?)"


def insert(connection: apsw.Connection) -> int:
    connection.execute(INSERT, (1, BODY))
    return connection.last_insert_rowid()


def bare(connection: apsw.Connection, batch: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for _ in range(batch):
        insert(connection)
    connection.execute("COMMIT")


def batched(connection: apsw.Connection, batch: int) -> None:
    writes: list[Write[int]] = [insert] * batch
    run_batch(connection, writes)


def alone(
    commit: Callable[[apsw.Connection, int], None], connection: apsw.Connection, batch: int, writes: int
) -> float:
    start = time.process_time()
    for _ in range(writes // batch):
        commit(connection, batch)
    return (time.process_time() - start) / writes * 1e6


def through_thread(connection: apsw.Connection, batch: int, writes: int) -> float:
    async def drive() -> float:
        writer = AsyncWriter(connection)
        await writer.run(insert)
        start = time.process_time()
        for _ in range(writes // batch):
            await asyncio.gather(*(writer.run(insert) for _ in range(batch)))
        spent = time.process_time() - start
        await writer.stop()
        return spent / writes * 1e6

    return uvloop.run(drive())


def measure(folder: Path, batch: int, writes: int, rounds: int) -> dict[str, float]:
    connection = open_writer(folder / f"batch-{batch}.db")
    connection.execute("CREATE TABLE message(id INTEGER PRIMARY KEY, topic INTEGER NOT NULL, body TEXT NOT NULL)")
    connection.execute("CREATE INDEX message_topic ON message(topic, id)")
    taken: dict[str, list[float]] = {"bare": [], "run_batch": [], "async_writer": []}
    for _ in range(rounds):
        taken["bare"].append(alone(bare, connection, batch, writes))
        taken["run_batch"].append(alone(batched, connection, batch, writes))
        taken["async_writer"].append(through_thread(connection, batch, writes))
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    connection.close()
    return {name: round(statistics.median(values), 2) for name, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=1024, help="writes of one turn")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the database lies; a tmpfs leaves the disk out"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        figures = {str(batch): measure(Path(folder), batch, options.writes, options.rounds) for batch in BATCH_SIZES}
    print(json.dumps({"cpu_us_per_write_by_batch_size": figures}, indent=2))


if __name__ == "__main__":
    main()
