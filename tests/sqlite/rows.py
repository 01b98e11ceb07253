"""A small workload on the real batch logic: inserts, some of which refuse themselves, with checkpoints between."""

import contextlib
import random
from pathlib import Path
from typing import Any

import apsw

from parley.core.errors import NotFound
from parley.sqlite import (
    Outcome,
    Synchronous,
    Write,
    apply_pragma,
    checkpoint_once,
    close_quietly,
    integrity_check,
    open_writer,
    run_batch,
)

SCHEMA = "CREATE TABLE IF NOT EXISTS row(number INTEGER PRIMARY KEY, body TEXT NOT NULL)"


def insert(number: int, body: str = "body") -> Write[int]:
    def write(connection: apsw.Connection) -> int:
        connection.execute("INSERT INTO row(number, body) VALUES (?, ?)", (number, body))
        return number

    return write


def insert_then_refuse(number: int) -> Write[int]:
    def write(connection: apsw.Connection) -> int:
        insert(number)(connection)
        raise NotFound("refused after it had written")

    return write


def numbers(connection: apsw.Connection) -> set[Any]:
    return {row[0] for row in connection.execute("SELECT number FROM row")}


class RowWorkload:
    """For the campaigns; ``level`` OFF exists only as the control that must fail."""

    def __init__(self, rng: random.Random, level: Synchronous | str = "full", batches: int = 25) -> None:
        self.rng = rng
        self.level = level
        self.batches = batches
        self.acknowledged: set[int] = set()
        self.refused: set[int] = set()
        self.connection: apsw.Connection | None = None
        self.checkpoints: apsw.Connection | None = None

    def setup(self, path: Path, vfs: str) -> None:
        self.connection = self.open(path, vfs)
        self.connection.execute(SCHEMA)
        self.checkpoints = self.open(path, vfs)

    def open(self, path: Path, vfs: str) -> apsw.Connection:
        if self.level != "off":
            return open_writer(path, synchronous="normal" if self.level == "normal" else "full", vfs=vfs)
        connection = open_writer(path, vfs=vfs)
        apply_pragma(connection, "synchronous", 0)
        return connection

    def step(self) -> bool:
        assert self.connection is not None
        assert self.checkpoints is not None
        if self.batches == 0:
            return False
        self.batches -= 1
        writes: list[Write[int]] = []
        for _ in range(self.rng.randint(1, 5)):
            number = self.rng.randrange(1 << 40)
            if self.rng.random() < 0.2:
                self.refused.add(number)
                writes.append(insert_then_refuse(number))
            else:
                writes.append(insert(number, "y" * self.rng.randrange(10, 2000)))
        for outcome in self.run(self.connection, writes):
            if outcome.value is not None:
                self.acknowledged.add(outcome.value)
        if self.rng.random() < 0.3:
            checkpoint_once(self.checkpoints, self.rng.choice(("passive", "truncate")))
        return True

    def run(self, connection: apsw.Connection, writes: list[Write[int]]) -> list[Outcome[int]]:
        return run_batch(connection, writes)

    def close(self) -> None:
        for connection in (self.checkpoints, self.connection):
            close_quietly(connection)

    def check(self, path: Path) -> list[str]:
        connection = apsw.Connection(str(path))
        try:
            problems = integrity_check(connection)
            present: set[int] = set()
            with contextlib.suppress(apsw.SQLError):  # cut before the table was there
                present = numbers(connection)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            return [f"damaged: {error}"]
        finally:
            connection.close()
        if lost := self.acknowledged - present:
            problems.append(f"{len(lost)} acknowledged rows are lost")
        if undead := self.refused & present:
            problems.append(f"{len(undead)} refused rows are there")
        return problems
