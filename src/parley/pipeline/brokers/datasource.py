"""``spark.read.format("parley_broker")``: the messages that brokers have accepted, without what was said.

Options: ``brokers`` (files of brokers and addresses of their databases, separated by commas) and
``messages_per_partition``. Columns are those of ``MESSAGE_DDL``. An address with a password in it is refused, because
options are part of a query's plan, which can be shown and logged; workers find the password as every client of
PostgreSQL does.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from parley.core.errors import InvalidInput
from parley.pipeline.brokers.ranges import RANGE_NUMBERS, MessageRange, pack, read_range, split, whole_history
from parley.pipeline.brokers.schema import MESSAGE_DDL
from parley.pipeline.brokers.stores import BrokerRef, address_of, find_brokers


class BrokerDataSource(DataSource):
    """The histories of brokers."""

    @classmethod
    def name(cls) -> str:
        return "parley_broker"

    def schema(self) -> str:
        return MESSAGE_DDL

    def reader(self, schema: StructType) -> "BrokerReader":
        return BrokerReader(dict(self.options))


class Ranges(InputPartition):
    """What one task reads: several ranges where they are small."""

    def __init__(self, ranges: Sequence[MessageRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


class BrokerReader(DataSourceReader):
    """All that the brokers hold when the query is planned."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def partitions(self) -> Sequence[Ranges]:
        numbers = _number(self._options)
        wanted = [each for broker in brokers_of(self._options) for each in whole_history(broker)]
        return [Ranges(each) for each in pack((part for each in wanted for part in split(each, numbers)), numbers)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark hands a partition of its own to the one task of a query that has nothing to read.
        for wanted in partition.ranges if isinstance(partition, Ranges) else ():
            yield from read_range(wanted)


def brokers_of(options: Mapping[str, str]) -> list[BrokerRef]:
    """The brokers that a source's options name."""
    named = [each.strip() for each in options.get("brokers", "").split(",") if each.strip()]
    if not named:
        raise InvalidInput("parley_broker needs the option brokers", option="brokers")
    if any(address_of(name).secrets for name in named):
        raise InvalidInput(
            "A password has no place in an option, which plans and logs repeat; set PGPASSWORD, or use a password file",
            option="brokers",
        )
    return find_brokers(named)


def _number(options: Mapping[str, str]) -> int:
    try:
        number = int(options.get("messages_per_partition", RANGE_NUMBERS))
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidInput(
            "The option messages_per_partition has to be a whole number from 1 on", option="messages_per_partition"
        )
    return number
