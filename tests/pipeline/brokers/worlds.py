"""Brokers with traffic in either store, and what became of it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from parley.broker.postgresql_store import PostgresqlStore
from parley.broker.rules.audit import record
from parley.broker.rules.topics import subscribe
from parley.broker.sqlite_store import open_sqlite_store
from parley.broker.store import BrokerStore
from parley.core.clock import ManualClock
from tests.conformance.broker.circle import Circle, key, make_send


class World(Circle):
    """Ann, Bob and Cid in one mesh and Eve in another, in a store whose place is known."""

    def __init__(self, place: str, store: BrokerStore, clock: ManualClock) -> None:
        super().__init__(store, clock)
        self.place = place
        for member in (self.ann, self.bob, self.cid):
            store.call(lambda tx, member=member: subscribe(tx, self.mesh_id, member.member_id, "deploy"))
        store.call(lambda tx: record(tx, self.mesh_id, "test", "ann", number=1))
        store.call(lambda tx: record(tx, self.mesh_id, "test", "bob", number=2))

    def talk(self, count: int, prefix: str = "c") -> None:
        """Messages of every kind. Cid takes what is his and Bob has leased some; of the rest nobody has heard."""
        for number in range(count):
            self.clock.advance(0.25)
            kind, ref = (("dm", ""), ("topic", "deploy"), ("queue", "*"))[number % 3]
            mentions = [key("bob"), key("cid")] if number % 2 else []
            body = b"\x00\xff sealed " * (number % 4)
            self.accepted(
                self.ann, make_send(f"{prefix}{number}", kind, ref, body, meta={"é": number}, mentions=mentions)
            )
        self.accepted(self.eve, make_send(f"{prefix}-eve", "queue", "*", b"to nobody"))
        self.clock.advance(2)
        self.acknowledge(self.cid, *self.claim(self.cid, "cid"))
        self.claim(self.bob, "bob", count=2)


@contextmanager
def opened_store(place: str, clock: ManualClock) -> Iterator[BrokerStore]:
    """The store at a place: a file's path, or the address of a schema."""
    store: BrokerStore
    if place.startswith("postgresql"):
        store = PostgresqlStore(place, clock)
    else:
        store = open_sqlite_store(Path(place), clock, synchronous="normal")
    with closing(store):
        yield store


@contextmanager
def opened_world(place: str, clock: ManualClock) -> Iterator[World]:
    """A new broker at an empty place."""
    with opened_store(place, clock) as store:
        yield World(place, store, clock)
