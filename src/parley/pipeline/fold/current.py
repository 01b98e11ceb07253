"""The current rows of every table, from events that contradict nothing.

Each function takes the events of any number of hubs and gives one row per ``db_id`` and ``id``: the columns of the pure
fold, the event that created it and the last that changed it. What earlier events have left behind can be handed in as
``before``, rows of the same shape; then only later events need to be there. Such a row is folded like the creation of
the thing as it then was.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from parley.core.fold import TABLES
from parley.core.limits import TOMBSTONE
from parley.pipeline.fold.canonical import canonical
from parley.pipeline.fold.facts import Facts, taken_by
from parley.pipeline.fold.payloads import (
    JSON_COLUMNS,
    KEYS,
    MESSAGE_EVENTS,
    ORIGIN,
    WHOLE_ROWS,
    columns_of,
    key_of,
    last,
    named,
    of_entity,
    parsed,
    row_type,
)


def current_tables(events: DataFrame, facts: Facts) -> dict[str, DataFrame]:
    """Every table of the pure fold, by its name."""
    tables = {
        "channels": channels(events),
        "topics": topics(events),
        "messages": messages(events, facts),
        "topic_attachments": attachments(events, facts),
        "enrichments": enrichments(events, facts),
    }
    return tables | {table: whole_rows(events, table) for table in WHOLE_ROWS}


def channels(events: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """Channels never change."""
    return _with(_created(events, "channel.created", "channel", "channels"), before)


def topics(events: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """Topics with their newest title, and the time of the last event that changed what they hold."""
    created = named(events, "topic.created").select(
        "db_id", F.col("entity_id").alias("id"), "event_id", F.col("event_id").alias("made"), "data_json"
    )
    renamed = named(events, "topic.renamed").select(
        "db_id",
        F.col("entity_id").alias("id"),
        "event_id",
        "ts",
        parsed("data_json", "new_title string")["new_title"].alias("title"),
    )
    parts = [created, renamed, topic_touches(events)]
    if before is not None:
        parts.append(_as_events(before, "topic", "topics"))
    changes = reduce(_union, parts)
    folded = changes.groupBy(*KEYS).agg(
        last(F.struct("made", "data_json"), F.col("made").isNotNull()).alias("created"),
        last(F.col("title"), F.col("title").isNotNull()).alias("title"),
        last(F.col("ts"), F.col("ts").isNotNull()).alias("touched_at"),
        F.max("event_id").alias("last_event_id"),
    )
    row = parsed("created.data_json", f"topic struct<{row_type('topics')}>")["topic"]
    changed = {"title": F.coalesce("title", row["title"]), "updated_at": F.coalesce("touched_at", row["updated_at"])}
    return (
        folded.where("created.made IS NOT NULL")
        .withColumn("row", row)
        .select(
            "db_id",
            *(changed.get(column, F.col("row")[column]).alias(column) for column in TABLES["topics"]),
            F.col("created.made").alias("created_event_id"),
            "last_event_id",
        )
    )


def messages(events: DataFrame, facts: Facts, before: DataFrame | None = None) -> DataFrame:
    """Messages as they are now: creation, newest content, newest place, and version of the last change."""
    changes = of_entity(events, *MESSAGE_EVENTS).withColumn("made", F.col("event_id"))
    if before is not None:
        changes = _union(changes, _as_events(before, "message", "messages")).repartition(*KEYS)
    name = F.col("name")
    folded = changes.groupBy(*KEYS).agg(
        last(F.struct("event_id", "made", "data_json"), name == "message.created").alias("created"),
        last(F.struct("event_id", "ts", "name", "data_json"), name.isin("message.edited", "message.deleted")).alias(
            "content"
        ),
        last(F.struct("event_id", "ts", "data_json"), name == "message.deleted").alias("deleted"),
        last(F.struct("event_id", "data_json"), name == "message.moved_topic").alias("moved"),
        F.max("event_id").alias("last_event_id"),
    )
    # Parsed in a step of its own: each column that is taken from a payload would parse it again.
    there = _without_archived(folded.where("created IS NOT NULL"), facts).withColumns(
        {
            "row": parsed("created.data_json", f"message struct<{row_type('messages')}>")["message"],
            "edit": parsed("content.data_json", "new_content string, version bigint"),
            "move": parsed("moved.data_json", "new_topic_id string, version bigint"),
        }
    )
    return there.select(*_message_columns(F.col("row")))


def _message_columns(row: Column) -> list[Column]:
    deleted_now = F.col("content.name") == "message.deleted"
    content_is_newer = F.col("content.event_id") > F.coalesce("moved.event_id", F.lit(0))
    changed = {
        "topic_id": _since("moved", F.col("move.new_topic_id")),
        "content_raw": _since("content", F.when(deleted_now, F.lit(TOMBSTONE)).otherwise(F.col("edit.new_content"))),
        "version": F.when(content_is_newer, _since("content", F.col("edit.version"))).otherwise(
            _since("moved", F.col("move.version"))
        ),
        "edited_at": _since("content", F.col("content.ts")),
        "deleted_at": _since("deleted", F.col("deleted.ts")),
        "deleted_by": _since("deleted", parsed("deleted.data_json", "deleted_by string")["deleted_by"]),
    }
    return [
        F.col("db_id"),
        *(_either(changed.get(column), row[column]).alias(column) for column in TABLES["messages"]),
        F.col("created.made").alias("created_event_id"),
        F.col("last_event_id"),
    ]


def _since(change: str, value: Column) -> Column:
    """The value that a change has set; null when the message was created anew after it, or there was none."""
    return F.when(F.col(f"{change}.event_id") > F.col("created.event_id"), value)


def _either(changed: Column | None, created: Column) -> Column:
    return created if changed is None else F.coalesce(changed, created)


def _without_archived(folded: DataFrame, facts: Facts) -> DataFrame:
    """Messages that nothing touched since an archive's boundary went into it."""
    if not facts.archives:
        return folded
    boundaries = facts.archived(folded).groupBy("db_id").agg(F.max("up_to").alias("up_to"))
    return folded.join(F.broadcast(boundaries), "db_id", "left").where("last_event_id > coalesce(up_to, 0)")


def attachments(events: DataFrame, facts: Facts, before: DataFrame | None = None) -> DataFrame:
    """Attachments never change, but for forgetting a source that went to an archive."""
    added = _created(events, "topic.attachment_added", "attachment", "topic_attachments")
    rows = _with(added.withColumn("value_json", canonical(F.col("value_json"))), before)
    if not facts.archives:
        return rows
    gone = taken_by(_last_touches(events), facts).withColumnRenamed("id", "source_message_id")
    here = F.col("archive_event_id").isNull() | (F.col("archive_event_id") < F.col("created_event_id"))
    source = F.when(here, F.col("source_message_id"))
    return (
        rows.join(gone, ["db_id", "source_message_id"], "left")
        .withColumn("last_event_id", F.greatest("last_event_id", F.when(~here, F.col("archive_event_id"))))
        .withColumn("source_message_id", source)
        .select(*rows.columns)
    )


def enrichments(events: DataFrame, facts: Facts, before: DataFrame | None = None) -> DataFrame:
    """What each plugin found last in each message, and whether the content has changed since."""
    found = of_entity(events, "message.enriched").withColumnRenamed("id", "message_id")
    plugin = parsed("data_json", "plugin_name string")["plugin_name"]
    newest = (
        found.withColumn("plugin_name", plugin)
        .groupBy("db_id", "message_id", "plugin_name")
        .agg(last(F.struct("event_id", "ts", "data_json")).alias("found"))
    )
    changed = (
        named(events, "message.edited", "message.deleted")
        .groupBy("db_id", F.col("entity_id").alias("message_id"))
        .agg(F.max("event_id").alias("content_event_id"))
    )
    rows = _findings(newest)
    if before is not None:
        still = before.join(newest, ["db_id", "message_id", "plugin_name"], "left_anti")
        rows = rows.unionByName(still.select(*rows.columns))
    changes_it = F.col("content_event_id") > F.col("created_event_id")
    rows = rows.join(changed, ["db_id", "message_id"], "left").withColumns(
        {
            "outdated": F.when(changes_it, F.lit(1)).otherwise(F.col("outdated")),
            "last_event_id": F.when(changes_it, F.col("content_event_id")).otherwise(F.col("last_event_id")),
        }
    )
    if facts.archives:
        gone = taken_by(_last_touches(events), facts).withColumnRenamed("id", "message_id")
        rows = rows.join(gone, ["db_id", "message_id"], "left").where(
            "archive_event_id IS NULL OR archive_event_id < created_event_id"
        )
    return rows.select("db_id", *TABLES["enrichments"], *ORIGIN)


def _findings(newest: DataFrame) -> DataFrame:
    """One row per finding of the newest event of each plugin and message."""
    finding = "struct<kind string, span struct<start bigint, end bigint>, data string>"
    payload = parsed("found.data_json", f"enrichment_ids array<string>, enrichments array<{finding}>")
    pairs = F.arrays_zip(payload["enrichment_ids"].alias("id"), payload["enrichments"].alias("one"))
    each = newest.withColumn("each", F.explode(pairs))
    return each.select(
        "db_id",
        "message_id",
        "plugin_name",
        F.col("each.id").alias("id"),
        F.col("each.one.kind").alias("kind"),
        F.col("each.one.span.start").alias("span_start"),
        F.col("each.one.span.end").alias("span_end"),
        canonical(F.col("each.one.data")).alias("data_json"),
        F.col("found.ts").alias("created_at"),
        F.lit(0).cast("bigint").alias("outdated"),
        F.col("found.event_id").alias("created_event_id"),
        F.col("found.event_id").alias("last_event_id"),
    )


def whole_rows(events: DataFrame, table: str, before: DataFrame | None = None) -> DataFrame:
    """A table whose events carry the whole row: the last one of each entity wins."""
    entity = WHOLE_ROWS[table]
    changes = events.where(F.col("name").startswith(f"{entity}.")).select(
        "db_id", F.col("entity_id").alias("id"), "event_id", "data_json", F.col("event_id").alias("made")
    )
    if before is not None:
        changes = _union(changes, _as_events(before, entity, table))
    folded = changes.groupBy(*KEYS).agg(
        last(F.col("data_json")).alias("data_json"),
        F.min("made").alias("created_event_id"),
        F.max("event_id").alias("last_event_id"),
    )
    row = parsed("data_json", f"{entity} struct<{row_type(table)}>")[entity]
    return _canonical(folded.withColumn("row", row).select("db_id", *columns_of(F.col("row"), table), *ORIGIN))


def _created(events: DataFrame, name: str, entity: str, table: str) -> DataFrame:
    """The rows of a table whose things are created once and whole."""
    row = parsed("data_json", f"{entity} struct<{row_type(table)}>")[entity]
    return (
        named(events, name)
        .withColumn("row", row)
        .select(
            "db_id",
            *columns_of(F.col("row"), table),
            F.col("event_id").alias("created_event_id"),
            F.col("event_id").alias("last_event_id"),
        )
    )


def topic_touches(events: DataFrame) -> DataFrame:
    """Each event that changed what a topic holds, once per topic: messages posted, moved away, moved in."""
    payload = parsed("data_json", "message struct<topic_id string>, old_topic_id string, new_topic_id string")
    moved = F.array_compact(F.array("to.old_topic_id", "to.new_topic_id"))
    topics = F.when(F.col("name") == "message.created", F.array("to.message.topic_id")).otherwise(moved)
    return (
        named(events, "message.created", "message.moved_topic")
        .select("db_id", "event_id", "ts", "name", payload.alias("to"))
        .select("db_id", F.explode(topics).alias("id"), "event_id", "ts")
    )


def _last_touches(events: DataFrame) -> DataFrame:
    """The last event that changed each message, by the rules of an archive."""
    touched = named(events, *MESSAGE_EVENTS).groupBy("db_id", F.col("entity_id").alias("id"))
    return touched.agg(F.max("event_id").alias("last_event_id"))


def _as_events(before: DataFrame, entity: str, table: str) -> DataFrame:
    """Rows as creations of what they hold, at the time of their last change."""
    columns = [_as_json(column) for column in TABLES[table]]
    return before.select(
        "db_id",
        F.col(key_of(table)).alias("id"),
        F.col("last_event_id").alias("event_id"),
        F.lit(f"{entity}.created").alias("name"),
        F.to_json(F.struct(F.struct(*columns).alias(entity))).alias("data_json"),
        F.col("created_event_id").alias("made"),
    )


def _as_json(column: str) -> Column:
    """A column as it stands in a payload: a list of patterns is a list there, not its text."""
    return F.from_json(column, "array<string>").alias(column) if column == "patterns" else F.col(column)


def _canonical(rows: DataFrame) -> DataFrame:
    for column in JSON_COLUMNS & set(rows.columns):
        rows = rows.withColumn(column, canonical(F.col(column)))
    return rows


def _with(rows: DataFrame, before: DataFrame | None) -> DataFrame:
    return rows if before is None else before.select(*rows.columns).unionByName(rows)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)
