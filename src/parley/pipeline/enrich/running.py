"""A plugin in a task: messages in as Arrow batches, what became of each out, in the same order.

A task has one locked-in process per plugin and keeps it warm. A message that the plugin hangs, crashes or raises on
costs that message: how it failed is its result, and the next message finds a new process. A process that cannot be
started is no message's fault and ends the task, which Spark tries elsewhere.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from parley.core.clock import Clock, SystemClock
from parley.pipeline.enrich.plugins import Chosen
from parley.pipeline.lake.catalogue.vectors import PLUGIN_FINDINGS
from parley.pipeline.lake.files import TableWriter, Task, tell
from parley.pipeline.lake.place import Lake
from parley.plugin.contract import Message
from parley.plugin.session import Failed, Outcome, PluginSession
from parley.plugin.validate import Findings

MESSAGE_COLUMNS: Final = (
    "id", "topic_id", "channel_id", "sender", "content_raw", "version", "created_at", "edited_at", "reply_to",
)  # fmt: skip
"""What a plugin sees of a message."""
ROWS_AT_ONCE: Final = 1_024
"""Results in one batch of a file."""


def enriching(lake: Lake, chosen: Mapping[str, Chosen], clock: Clock | None = None) -> Task:
    """A task that runs each hub's plugin on its messages and writes the findings to files of the table."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with TableWriter(lake, PLUGIN_FINDINGS) as writer, _Processes(chosen, clock or SystemClock()) as processes:
            for batch in batches:
                for part in _parts(batch):
                    writer.write(processes.findings_of(part))
        yield from tell(writer.files)

    return run


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, ROWS_AT_ONCE):
        yield batch.slice(start, ROWS_AT_ONCE)


class _Processes:
    """The processes of one task, started when they are first needed, all ended at its end."""

    def __init__(self, chosen: Mapping[str, Chosen], clock: Clock) -> None:
        self._chosen = chosen
        self._clock = clock
        self._sessions: dict[str, PluginSession] = {}

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions.values():
            session.close()

    def findings_of(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """What became of each message, as rows of the table."""
        rows: list[dict[str, Any]] = messages.to_pylist()
        by_hub: dict[str, list[Message]] = {}
        for row in rows:
            message = Message(**{name: row[name] for name in MESSAGE_COLUMNS})
            by_hub.setdefault(row["db_id"], []).append(message)
        found = [self._row(db_id, outcome) for db_id, each in by_hub.items() for outcome in self._run(db_id, each)]
        return pa.RecordBatch.from_pylist(found, PLUGIN_FINDINGS.schema)

    def _run(self, db_id: str, messages: Sequence[Message]) -> Iterator[Outcome]:
        """One outcome per message, whatever happens to the process in between."""
        done = 0
        while done < len(messages):
            for outcome in self._session(db_id).run_many(messages[done:]):
                done += 1
                yield outcome

    def _session(self, db_id: str) -> PluginSession:
        session = self._sessions.get(db_id)
        if session is None or not session.alive:
            session = self._sessions[db_id] = self._chosen[db_id].session(self._clock)
            session.start()
        return session

    def _row(self, db_id: str, outcome: Outcome) -> dict[str, Any]:
        plugin = self._chosen[db_id].plugin
        failed = isinstance(outcome, Failed)
        return {
            "db_id": db_id,
            "message_id": outcome.message.id,
            "version": outcome.message.version,
            "plugin": plugin.name,
            "plugin_digest": self._chosen[db_id].digest,
            "plugin_type": plugin.settings.type,
            "findings_json": None if failed else findings_json(outcome.findings),
            "failure": outcome.reason if failed else None,
            "error": outcome.text if failed else None,
            "seconds": outcome.seconds,
            "ran_at": self._clock.now_ms() * 1000,
        }


def findings_json(findings: Findings) -> str | None:
    """What was found, in the shape in which a hub takes it back; None if nothing was."""
    if not findings.enrichments and not findings.attachments:
        return None
    found = findings.enrichments or [
        {name: value for name, value in msgspec.to_builtins(each).items() if name != "source_message_id"}
        for each in findings.attachments
    ]
    return msgspec.json.encode(found).decode()
