"""A workspace with plugins and messages, its trust, and its messages as silver would hold them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from parley.core.clock import ManualClock, SystemClock, iso
from parley.core.ids import IdSource
from parley.pipeline.hubs import HubRef, hub_of_workspace
from parley.pipeline.lake import Lake, read_table
from parley.pipeline.lake.tables import Table
from parley.sqlite import open_reader
from parley.workspace import discovery, queries
from parley.workspace.config import load_settings
from parley.workspace.plugins import measure
from parley.workspace.queries.entities import MESSAGE_COLUMNS
from parley.workspace.trust import TrustStore
from tests.hub.rules.job_world import World
from tests.workspace.databases import START_MS, new_workspace, prepared, writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TICKETS = """
import os, re, time

def enrich(message, config):
    if "hang" in message.content_raw:
        time.sleep(600)
    if "crash" in message.content_raw:
        os._exit(3)
    if "raise" in message.content_raw:
        raise ValueError("no")
    if "wrong" in message.content_raw:
        return [{"kind": "ticket", "span": {"start": 0, "end": 10_000}}]
    return [
        {"kind": "ticket", "span": {"start": found.start(), "end": found.end()}, "data": {"number": int(found[1])}}
        for found in re.finditer(r"T-(\\d+)", message.content_raw)
    ]

def extract(message, config):
    return [{"kind": "ticket", "value_json": each["data"]} for each in enrich(message, config)]
"""
SETTINGS = """
[plugin_defaults]
deadline_seconds = 60.0

[[plugins]]
name = "tickets"
type = "linkifier"
module = "tickets.py"

[[plugins]]
name = "notes"
type = "extractor"
module = "tickets.py"

[[plugins]]
name = "off"
type = "linkifier"
module = "tickets.py"
enabled = false
"""


class _Resumed(World):
    """The rules, on a database that may have been written to before."""

    def __init__(self, connection: apsw.Connection, clock: ManualClock) -> None:
        topics = [str(topic) for (topic,) in connection.execute("SELECT id FROM topics ORDER BY id")]
        if not topics:
            super().__init__(connection, clock)
            return
        self.connection, self.clock, self.topics = connection, clock, topics
        self.ids = IdSource(queries.largest_ids(connection))


class Workbench:
    """One workspace, and the home of the user who trusts it."""

    def __init__(self, root: Path, contents: Iterable[str] = (), *, settings: str = SETTINGS) -> None:
        self.root = root
        self.home = root.parent / f"{root.name}-home"
        root.mkdir(parents=True)
        self.workspace = new_workspace(root)
        with writing(self.workspace) as connection:
            prepared(connection, self.workspace, fts=False)
        self.write(settings)
        self.ids: list[str] = []
        self.post(*contents)

    @property
    def hub(self) -> HubRef:
        return hub_of_workspace(self.root)

    def write(self, settings: str = SETTINGS, module: str = TICKETS, *, trusted: bool = True) -> None:
        """Writes ``parley.toml`` and the module, and trusts both."""
        (self.root / "parley.toml").write_text(settings)
        (self.root / "tickets.py").write_text(module)
        if trusted:
            measured = measure(self.workspace, load_settings(self.workspace.config))
            TrustStore(self.home).trust(self.workspace.root, measured, iso(SystemClock().now_ms()))

    @contextmanager
    def rules(self) -> Iterator[World]:
        """The rules of a hub, while none runs."""
        with writing(self.workspace) as connection:
            yield _Resumed(connection, ManualClock(START_MS + len(self.ids)))

    def post(self, *contents: str) -> list[str]:
        """Posts messages while no hub runs; their ids."""
        if contents:
            with self.rules() as world:
                self.ids += [world.post(content) for content in contents]
        return self.ids

    def messages(self, spark: "SparkSession") -> "DataFrame":
        """The messages as they are now."""
        return messages_of(spark, [self.hub])


def messages_of(spark: "SparkSession", hubs: Sequence[HubRef]) -> "DataFrame":
    """The messages of the hubs' own tables, in the columns of silver."""
    rows: list[Any] = []
    for hub in hubs:
        connection = open_reader(discovery.at(Path(hub.source)).db)
        rows += connection.execute(
            f"SELECT ?, {MESSAGE_COLUMNS}, (SELECT max(event_id) FROM events WHERE entity_id = messages.id)"
            " FROM messages",
            (hub.db_id,),
        ).fetchall()
        connection.close()
    types = {"version": "bigint"}
    columns = [f"{name} {types.get(name, 'string')}" for name in MESSAGE_COLUMNS.split(", ")]
    return spark.createDataFrame(rows, f"db_id string, {', '.join(columns)}, last_event_id bigint")


def standing_of(spark: "SparkSession", hub: HubRef) -> "DataFrame":
    """Which plugins have found something in which messages, by the hub's own table."""
    connection = open_reader(discovery.at(Path(hub.source)).db)
    rows = connection.execute("SELECT ?, message_id, plugin_name FROM enrichments", (hub.db_id,)).fetchall()
    connection.close()
    return spark.createDataFrame(rows, "db_id string, message_id string, plugin_name string")


def rows_of(spark: "SparkSession", lake: Lake, table: Table) -> list[dict[str, Any]]:
    """The table, in the order of its messages."""
    found = [row.asDict(recursive=True) for row in read_table(spark, lake, table).collect()]
    return sorted(found, key=lambda row: (row["db_id"], row["message_id"], row["version"]))
