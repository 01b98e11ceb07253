"""Silver in SQL: what the events of bronze add up to, by the rules of the fold.

Rows that change are folded from what they were and from the events that they have not seen.

A row of ``silver_message_versions`` is the message as it was at that version, with how often it had been edited and
moved, so what a message is now, and what gold counts of it, are its newest rows: payloads are parsed once. What the
newest row alone has is null in the others.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from parley.core.events import EVENTS
from parley.core.fold import TABLES as FOLDED
from parley.core.limits import TOMBSTONE
from parley.pipeline.engine.spec import Inputs, Part, Spec
from parley.pipeline.fold import Facts, Known, quarantined, read_facts
from parley.pipeline.fold.payloads import MESSAGE_EVENTS, WHOLE_ROWS, key_of, named, row_type
from parley.pipeline.lake.catalogue import silver
from parley.pipeline.lake.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STRICT: Final = "map('allowSingleQuotes', 'false', 'allowNonNumericNumbers', 'false')"
_TEXT, _COUNT, _MOMENT = pa.string(), pa.int64(), pa.timestamp("us", tz="UTC")


def _wider(table: Table, columns: dict[str, pa.DataType]) -> Table:
    """The table with more columns, before the one that it is partitioned by."""
    own = [field for field in table.schema if field.name not in table.partition_by]
    added = [pa.field(name, kind) for name, kind in columns.items()]
    parted = [table.schema.field(name) for name in table.partition_by]
    return Table(
        table.layer,
        table.name,
        pa.schema([*own, *added, *parted]),
        table.meaning,
        table.partition_by,
        table.cluster_by,
        table.plain,
    )


MESSAGE_VERSIONS: Final = _wider(
    silver.MESSAGE_VERSIONS,
    {
        **dict.fromkeys(("sender", "channel_id", "created_at", "edited_at", "deleted_at", "deleted_by"), _TEXT),
        "posted_event_id": _COUNT,
        "posted_time": _MOMENT,
        **dict.fromkeys(("characters", "edits", "moves", "deletions"), _COUNT),
        "asks": pa.bool_(),
    },
)
ASKS: Final = r"(?m)[?？؟]\s*$"
"""A line that ends with a question mark. Others, as in addresses and code, ask nothing."""


def _parsed(schema: str) -> str:
    return f"from_json(data_json, '{schema}', {_STRICT})"


ARCHIVES: Final = Part(
    "archives",
    f"""SELECT db_id, event_id AS archive_event_id,
        least({_parsed("up_to_event_id bigint")}.up_to_event_id, event_id) AS up_to
    FROM {{news}} WHERE name = 'workspace.archived'""",
)
"""A hub with an archive among its news is built whole; earlier ones took nothing that news can be about."""
TAKEN: Final = Part(
    "taken",
    """SELECT v.db_id, v.id, min(a.archive_event_id) AS archive_event_id
    FROM {silver_message_versions} v JOIN {archives} a ON a.db_id = v.db_id AND a.up_to >= v.valid_from_event
    WHERE v.valid_to_event IS NULL GROUP BY v.db_id, v.id""",
)
"""The messages that archives took, and the first one that took each."""

_CHANGE: Final = (
    "message struct<version bigint, content_raw string, topic_id string, channel_id string, sender string,"
    " reply_to string, created_at string, edited_at string, deleted_at string, deleted_by string>,"
    " version bigint, new_content string, new_topic_id string, deleted_by string"
)
VERSIONS: Final = f"""
    WITH parsed AS (
        SELECT db_id, entity_id AS id, event_id, ts, {_parsed(_CHANGE)} AS p,
            CASE name WHEN 'message.moved_topic' THEN 'moved' ELSE split_part(name, '.', 2) END AS change
        FROM {{news}}
        WHERE name IN ('message.created', 'message.edited', 'message.deleted', 'message.moved_topic')
    ), steps AS (
        SELECT db_id, id, event_id, ts, try_to_timestamp(ts) AS time, change,
            CASE change WHEN 'created' THEN p.message.version ELSE p.version END AS version,
            CASE change WHEN 'created' THEN p.message.content_raw WHEN 'edited' THEN p.new_content
                WHEN 'deleted' THEN '{TOMBSTONE}' END AS content,
            CASE change WHEN 'created' THEN p.message.topic_id WHEN 'moved' THEN p.new_topic_id END AS topic,
            CASE change WHEN 'created' THEN p.message.sender WHEN 'deleted' THEN p.deleted_by END AS actor,
            CASE change WHEN 'created' THEN p.message.edited_at WHEN 'moved' THEN NULL ELSE ts END AS edited,
            CASE change WHEN 'created' THEN p.message.deleted_at WHEN 'deleted' THEN ts END AS deleted,
            CASE change WHEN 'created' THEN p.message.deleted_by WHEN 'deleted' THEN p.deleted_by END AS deleter,
            CASE change WHEN 'created' THEN p.message.reply_to END AS reply,
            CASE change WHEN 'created' THEN struct(event_id, try_to_timestamp(ts) AS time, p.message.sender,
                p.message.channel_id, p.message.created_at,
                CAST(length(p.message.content_raw) AS BIGINT) AS characters) END AS posted,
            CAST(change = 'edited' AS BIGINT) AS edits, CAST(change = 'moved' AS BIGINT) AS moves,
            CAST(change = 'deleted' AS BIGINT) AS deletions
        FROM parsed
        UNION ALL
        SELECT db_id, id, valid_from_event, ts, time, change, version, content_raw, topic_id, actor, edited_at,
            deleted_at, deleted_by, reply_to, struct(posted_event_id AS event_id, posted_time AS time, sender,
                channel_id, created_at, characters), edits, moves, deletions
        FROM {{before}}
    ), versions AS (
        SELECT db_id, id, event_id, ts, time, change, version, actor,
            last(content) IGNORE NULLS OVER so_far AS content_raw,
            last(topic) IGNORE NULLS OVER so_far AS topic_id,
            last(reply) IGNORE NULLS OVER so_far AS reply_to,
            last(edited) IGNORE NULLS OVER so_far AS edited_at,
            last(deleted) IGNORE NULLS OVER so_far AS deleted_at,
            last(deleter) IGNORE NULLS OVER so_far AS deleted_by,
            last(posted) IGNORE NULLS OVER so_far AS posted,
            sum(edits) OVER so_far AS edits,
            sum(moves) OVER so_far AS moves,
            sum(deletions) OVER so_far AS deletions,
            lead(event_id) OVER (PARTITION BY db_id, id ORDER BY event_id) AS valid_to_event
        FROM steps
        WINDOW so_far AS (
            PARTITION BY db_id, id ORDER BY event_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        )
    )
    SELECT db_id, id, version, change, content_raw, topic_id, actor, reply_to, ts, event_id AS valid_from_event,
        valid_to_event, time, posted.sender, posted.channel_id, posted.created_at, edited_at, deleted_at, deleted_by,
        posted.event_id AS posted_event_id, posted.time AS posted_time, posted.characters,
        edits, moves, deletions,
        CASE WHEN valid_to_event IS NULL THEN content_raw RLIKE :asks END AS asks
    FROM versions"""

MESSAGES: Final = """
    SELECT v.db_id, v.id, v.topic_id, v.channel_id, v.sender, v.content_raw, v.version, v.created_at, v.edited_at,
        v.deleted_at, v.deleted_by, v.reply_to, v.posted_event_id AS created_event_id,
        v.valid_from_event AS last_event_id
    FROM {silver_message_versions} v
    LEFT JOIN (SELECT db_id, max(up_to) AS up_to FROM {archives} GROUP BY db_id) a ON a.db_id = v.db_id
    WHERE v.valid_to_event IS NULL AND v.valid_from_event > coalesce(a.up_to, 0)"""

TITLES: Final = f"""
    WITH steps AS (
        SELECT db_id, entity_id AS id, event_id, ts,
            {_parsed("topic struct<title string>, new_title string")} AS p, name
        FROM {{news}} WHERE name IN ('topic.created', 'topic.renamed')
    ), titles AS (
        SELECT db_id, id, CASE name WHEN 'topic.created' THEN p.topic.title ELSE p.new_title END AS title, ts, event_id
        FROM steps
        UNION ALL
        SELECT db_id, id, title, ts, valid_from_event FROM {{before}}
    )
    SELECT db_id, id, title, ts, event_id AS valid_from_event,
        lead(event_id) OVER (PARTITION BY db_id, id ORDER BY event_id) AS valid_to_event
    FROM titles"""

MOVES: Final = f"""
    WITH parsed AS (
        SELECT db_id, event_id, ts, {
    _parsed(
        "message_id string, old_topic_id string, new_topic_id string, channel_id string, mode string, version bigint"
    )
} AS p
        FROM {{news}} WHERE name = 'message.moved_topic'
    )
    SELECT db_id, event_id, ts, p.* FROM parsed"""


def _columns(name: str, row: str = "row") -> str:
    """The columns of a table out of a parsed row; JSON values as canonical text."""
    return ", ".join(
        f"canonical({row}.{column}) AS {column}" if column in ("value_json", "patterns") else f"{row}.{column}"
        for column in FOLDED[name]
    )


def _created(event: str, name: str) -> str:
    """A table whose things are created once and whole."""
    entity = "attachment" if name == "topic_attachments" else event.partition(".")[0]
    return f"""SELECT db_id, {_columns(name)}, event_id AS created_event_id, event_id AS last_event_id FROM (
            SELECT db_id, event_id, {_parsed(f"{entity} struct<{row_type(name)}>")}.{entity} AS row
            FROM {{news}} WHERE name = '{event}'
        )"""


TOPICS: Final = f"""
    WITH made AS (
        {_created("topic.created", "topics")}
        UNION ALL
        SELECT db_id, {", ".join(FOLDED["topics"])}, created_event_id, last_event_id FROM {{before}}
    ), touches AS (
        SELECT db_id, id, valid_from_event AS event_id, ts, title FROM {{new_silver_topic_titles}}
        UNION ALL
        SELECT db_id, topic_id, valid_from_event, ts, NULL FROM {{new_silver_message_versions}}
        WHERE change = 'created'
        UNION ALL
        SELECT db_id, topic_id, event_id, ts, NULL
        FROM {{new_silver_moves}} LATERAL VIEW explode(array(old_topic_id, new_topic_id)) AS topic_id
    ), touched AS (
        SELECT t.db_id, t.id, max_by(t.title, t.event_id) FILTER (WHERE t.title IS NOT NULL) AS title,
            max_by(t.ts, t.event_id) FILTER (WHERE m.created_event_id IS NULL) AS updated_at,
            max(t.event_id) AS last_event_id
        FROM touches t LEFT JOIN made m ON m.db_id = t.db_id AND m.id = t.id AND m.created_event_id = t.event_id
        GROUP BY t.db_id, t.id
    )
    SELECT m.db_id, m.id, m.channel_id, coalesce(t.title, m.title) AS title, m.created_at,
        coalesce(t.updated_at, m.updated_at) AS updated_at, m.created_event_id,
        greatest(m.last_event_id, t.last_event_id) AS last_event_id
    FROM made m JOIN touched t ON t.db_id = m.db_id AND t.id = m.id"""

ATTACHMENTS: Final = f"""
    WITH added AS ({_created("topic.attachment_added", "topic_attachments")})
    SELECT a.db_id, {
    ", ".join(
        "CASE WHEN t.archive_event_id IS NULL OR t.archive_event_id < a.created_event_id"
        " THEN a.source_message_id END AS source_message_id"
        if column == "source_message_id"
        else f"a.{column}"
        for column in FOLDED["topic_attachments"]
    )
}, a.created_event_id, greatest(a.created_event_id, t.archive_event_id) AS last_event_id
    FROM added a LEFT JOIN {{taken}} t ON t.db_id = a.db_id AND t.id = a.source_message_id"""

_FOUND: Final = (
    "plugin_name string, enrichment_ids array<string>,"
    " enrichments array<struct<kind string, span struct<start bigint, end bigint>, data string>>"
)
ENRICHMENTS: Final = f"""
    WITH parsed AS (
        SELECT db_id, entity_id AS message_id, event_id, ts, {_parsed(_FOUND)} AS p
        FROM {{news}} WHERE name = 'message.enriched'
    ), newest AS (
        SELECT db_id, message_id, p.plugin_name, max_by(struct(event_id, ts, p), event_id) AS found
        FROM parsed GROUP BY db_id, message_id, p.plugin_name
    ), findings AS (
        SELECT db_id, each.enrichment_ids AS id, message_id, plugin_name, each.enrichments.kind,
            each.enrichments.span.start AS span_start, each.enrichments.span.`end` AS span_end,
            canonical(each.enrichments.data) AS data_json, found.ts AS created_at, CAST(0 AS BIGINT) AS outdated,
            found.event_id AS created_event_id, found.event_id AS last_event_id
        FROM newest LATERAL VIEW explode(arrays_zip(found.p.enrichment_ids, found.p.enrichments)) AS each
        UNION ALL
        SELECT b.db_id, {", ".join(f"b.{column}" for column in FOLDED["enrichments"])}, b.created_event_id,
            b.last_event_id
        FROM {{before}} b LEFT ANTI JOIN newest n
        ON n.db_id = b.db_id AND n.message_id = b.message_id AND n.plugin_name = b.plugin_name
    ), changed AS (
        SELECT db_id, id, max(valid_from_event) AS event_id FROM {{new_silver_message_versions}}
        WHERE change IN ('edited', 'deleted') GROUP BY db_id, id
    )
    SELECT f.* EXCEPT (outdated, last_event_id),
        CASE WHEN c.event_id IS NULL THEN f.outdated ELSE 1 END AS outdated,
        coalesce(c.event_id, f.last_event_id) AS last_event_id
    FROM findings f
    LEFT JOIN changed c ON c.db_id = f.db_id AND c.id = f.message_id AND c.event_id > f.created_event_id
    LEFT JOIN {{taken}} t ON t.db_id = f.db_id AND t.id = f.message_id
    WHERE t.archive_event_id IS NULL OR t.archive_event_id < f.created_event_id"""


def _whole_rows(name: str) -> str:
    """A table whose events carry the whole row: the last one of each entity wins."""
    entity = WHOLE_ROWS[name]
    return f"""
    WITH newest AS (
        SELECT db_id, entity_id, max_by(data_json, event_id) AS data_json, min(event_id) AS created_event_id,
            max(event_id) AS last_event_id
        FROM {{news}} WHERE startswith(name, '{entity}.') GROUP BY db_id, entity_id
    ), parsed AS (
        SELECT *, {_parsed(f"{entity} struct<{row_type(name)}>")}.{entity} AS row FROM newest
    )
    SELECT p.db_id, {_columns(name, "p.row")}, coalesce(b.created_event_id, p.created_event_id) AS created_event_id,
        p.last_event_id
    FROM parsed p LEFT JOIN {{before}} b ON b.db_id = p.db_id AND b.{key_of(name)} = p.entity_id"""


def _judged(inputs: Inputs, divided: Collection[str]) -> "DataFrame":
    """What cannot be folded, in the state that the events before the news have left behind."""
    events = inputs["events"]
    facts = read_facts(events)
    facts = Facts(facts.archives, facts.truncated - set(divided))  # they begin with what is already there
    return quarantined(events, facts, _known(inputs) if divided else None)


def _known(inputs: Inputs) -> Known:
    """The rows that the events may be about."""
    about = named(inputs["events"], *MESSAGE_EVENTS, "message.enriched", "topic.attachment_added")
    ids = about.selectExpr("db_id", "entity_id AS id").distinct()
    rows = {table.name: inputs[table.view] for table in _STATE}
    many = {name: rows[name].join(ids, ["db_id", "id"], "left_semi") for name in ("messages", "attachments")}
    return Known(**rows | many)


def _ids(column: str, *names: str) -> str:
    """What events of these names are about."""
    quoted = ", ".join(f"'{name}'" for name in names)
    return f"SELECT db_id, entity_id AS {column} FROM {{news}} WHERE name IN ({quoted})"


def _rows(name: str, table: Table) -> Spec:
    entity, key = WHOLE_ROWS[name], key_of(name)
    names = [each for each, spec in EVENTS.items() if spec.entity == entity]
    return Spec(
        table, _whole_rows(name), ("db_id", key), unit=key, touched=_ids(key, *names), origin="created_event_id"
    )


_STATE: Final = (
    silver.CHANNELS,
    silver.TOPICS,
    silver.MESSAGES,
    silver.ATTACHMENTS,
    silver.TASKS,
    silver.LEASES,
    silver.AGENTS,
)
_TITLED: Final = ("topic.created", "topic.renamed")
_TOPICS_TOUCHED: Final = f"""
    {_ids("id", *_TITLED)}
    UNION ALL SELECT db_id, topic_id FROM {{new_silver_message_versions}} WHERE change = 'created'
    UNION ALL SELECT db_id, topic_id
        FROM {{new_silver_moves}} LATERAL VIEW explode(array(old_topic_id, new_topic_id)) AS topic_id"""

PARTS: Final = (ARCHIVES, TAKEN)
SPECS: Final = (
    Spec(
        silver.QUARANTINE,
        _judged,
        ("db_id", "event_id"),
        reads=("events",),
        recalls=tuple(table.view for table in _STATE),
        appends=True,
    ),
    Spec(
        MESSAGE_VERSIONS,
        VERSIONS,
        ("db_id", "valid_from_event"),
        unit="id",
        touched=_ids("id", *MESSAGE_EVENTS),
        standing="valid_to_event IS NULL",
        origin="valid_from_event",
    ),
    Spec(
        silver.TOPIC_TITLES,
        TITLES,
        ("db_id", "valid_from_event"),
        unit="id",
        touched=_ids("id", *_TITLED),
        standing="valid_to_event IS NULL",
        origin="valid_from_event",
    ),
    Spec(silver.MOVES, MOVES, ("db_id", "event_id"), appends=True),
    Spec(
        silver.CHANNELS,
        _created("channel.created", "channels"),
        ("db_id", "id"),
        appends=True,
        origin="created_event_id",
    ),
    Spec(silver.TOPICS, TOPICS, ("db_id", "id"), unit="id", touched=_TOPICS_TOUCHED, origin="created_event_id"),
    Spec(
        silver.MESSAGES,
        MESSAGES,
        ("db_id", "id"),
        unit="id",
        touched="SELECT db_id, id FROM {new_silver_message_versions}",
        sees={
            MESSAGE_VERSIONS.view: "SELECT * FROM {rows} r LEFT SEMI JOIN {touched} t"
            " ON t.db_id = r.db_id AND t.unit = r.id WHERE r.valid_to_event IS NULL"
        },
        origin="created_event_id",
    ),
    Spec(silver.ATTACHMENTS, ATTACHMENTS, ("db_id", "id"), appends=True, origin="created_event_id"),
    Spec(
        silver.ENRICHMENTS,
        ENRICHMENTS,
        ("db_id", "id"),
        unit="message_id",
        touched=_ids("message_id", "message.enriched", "message.edited", "message.deleted"),
        origin="created_event_id",
    ),
    _rows("tasks", silver.TASKS),
    _rows("leases", silver.LEASES),
    _rows("agents", silver.AGENTS),
)
