"""One moment of each broker, and what the lake held of it just before.

The lake's version is looked up first: all that bronze holds by then must be known to the copy that is made after it.
"""

import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw

from parley.pipeline.brokers.reading import Store, open_store
from parley.pipeline.brokers.stores import BrokerRef, StoreAddress
from parley.pipeline.lake.catalogue.mesh import BROKER_MESSAGES
from parley.pipeline.lake.commit import exists, table_version
from parley.pipeline.lake.place import Lake
from parley.sqlite import integrity_check, online_backup, open_reader

PREFIX: Final = "parley-audit-"
_OF_VALUES: Final = (
    "CHECK constraint failed",
    "NULL value in",
    "non-unique entry",
    "TEXT value in",
    "NUMERIC value in",
)
"""How SQLite begins when it speaks of values that should not be there, in a file that is sound otherwise."""
_COUNTS: Final = (
    "SELECT (SELECT count(*) FROM mesh), (SELECT count(*) FROM message_history), (SELECT count(*) FROM delivery_queue)"
)


@dataclass(frozen=True, slots=True)
class BrokerCopy:
    """A broker that was audited, and how much there was of it."""

    broker: BrokerRef
    meshes: int
    messages: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A broker at one moment, open for questions."""

    broker: BrokerRef
    store: Store
    file: Path | None
    """The copy of a file; None for a database."""
    held_at: int | None
    """The version of bronze before the moment; None without a lake that has brokers."""
    problems: tuple[str, ...] = ()
    """What SQLite finds wrong with the copy."""

    @property
    def torn(self) -> bool:
        """Whether the file itself is damaged, rather than values in it."""
        return any(not problem.startswith(_OF_VALUES) for problem in self.problems)

    @property
    def untouched(self) -> bool:
        """Whether it is a file that was never restored, whose numbers have no reason to be left out."""
        return self.file is not None and self.broker.epoch == 1

    def counted(self) -> BrokerCopy:
        """How much there is of it, as far as it can be read."""
        try:
            ((meshes, messages, deliveries),) = self.store.rows(_COUNTS)
        except apsw.CorruptError:
            meshes = messages = deliveries = 0
        return BrokerCopy(self.broker, int(meshes), int(messages), int(deliveries))


@contextmanager
def one_moment(broker: BrokerRef, lake: Lake | None) -> Generator[Moment]:
    """The broker as it is now, whatever it does meanwhile. A copy goes when the block ends, however it ends."""
    with_bronze = lake is not None and exists(lake, BROKER_MESSAGES)
    held_at = table_version(lake, BROKER_MESSAGES) if lake is not None and with_bronze else None
    if broker.address.path is None:
        with open_store(broker.address, snapshot=True) as store:
            yield Moment(broker, store, None, held_at)
        return
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        copy = Path(folder) / "broker.db"
        online_backup(Path(broker.address.path), copy)
        with closing(open_reader(copy)) as reader:
            problems = tuple(integrity_check(reader))
        with open_store(StoreAddress(path=str(copy))) as store:
            yield Moment(broker, store, copy, held_at, problems)
