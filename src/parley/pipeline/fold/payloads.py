"""What the fold reads from events: the columns of each table, their types, and how a payload becomes a row.

Payloads are parsed strictly, as ``core`` parses them: what only a lenient reader would take for JSON is malformed. The
columns are those of the pure fold; only what is not text is told here.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from parley.core.fold import TABLES

NUMBERS: Final = frozenset({"version", "span_start", "span_end", "outdated", "generation"})
"""Columns that hold whole numbers; all others are text."""

JSON_COLUMNS: Final = frozenset({"value_json", "data_json", "patterns"})
"""Columns that hold a JSON value as canonical text."""

WHOLE_ROWS: Final = {"tasks": "task", "leases": "lease", "agents": "agent"}
"""Tables whose events carry the whole row after the change, each under the name of what it is about."""

KEYS: Final = ("db_id", "id")
ORIGIN: Final = ("created_event_id", "last_event_id")
"""What each current row has beside the columns of its table: the event that made it, and the last that changed it."""

CHANGES: Final = ("message.edited", "message.deleted", "message.moved_topic")
MESSAGE_EVENTS: Final = ("message.created", *CHANGES)

_STRICT: Final = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


def parsed(text: Column | str, schema: str) -> Column:
    """The members of a JSON object that the schema names; null for those that are not there or of another kind."""
    return F.from_json(text, schema, _STRICT)


def row_type(table: str) -> str:
    """The columns of a table as a Spark schema; a JSON value comes as its text."""
    return ", ".join(f"{column} {'bigint' if column in NUMBERS else 'string'}" for column in TABLES[table])


def key_of(table: str) -> str:
    """The column that names a row within its hub."""
    return TABLES[table][0]


def columns_of(row: Column, table: str) -> list[Column]:
    """The columns of a table out of a parsed row, under their own names."""
    return [row[column].alias(column) for column in TABLES[table]]


def named(events: DataFrame, *names: str) -> DataFrame:
    """The events of these names."""
    return events.where(F.col("name").isin(*names))


def of_entity(events: DataFrame, *names: str) -> DataFrame:
    """The events of these names, what one entity went through in one place: a single sort then serves all of it.

    Payloads travel as text and are parsed afterwards, when most of them have been left behind.
    """
    kept = named(events, *names).select("db_id", F.col("entity_id").alias("id"), "event_id", "ts", "name", "data_json")
    return kept.repartition(*KEYS)


def last(value: Column, when: Column | None = None) -> Column:
    """The value at the last event of a group, or at the last of those that fulfil a condition."""
    order = F.col("event_id")
    return F.max_by(value, order if when is None else F.when(when, order))
