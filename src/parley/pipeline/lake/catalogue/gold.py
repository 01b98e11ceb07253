"""Gold: how the agents work, counted.

Times are moments in UTC, and what lasts is in milliseconds. What is counted as of "now" is counted as of the last event
of its hub, so the same events always give the same rows.
"""

from typing import Final

import pyarrow as pa

from parley.pipeline.lake.tables import Table

_COUNT, _SHARE, _TEXT = pa.int64(), pa.float64(), pa.string()
_MOMENT = pa.timestamp("us", tz="UTC")


def _all(kind: pa.DataType, *names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, kind)


_LATENCIES: Final = {"measured": _COUNT, "p50_ms": _SHARE, "p90_ms": _SHARE, "p99_ms": _SHARE, "max_ms": _COUNT}
_FATES: Final = _all(_COUNT, "messages", "edited", "moved", "deleted")
_RATES: Final = _all(_SHARE, "edit_rate", "move_rate", "delete_rate")
_ACTIVITY: Final = {
    "start": _MOMENT,
    **_all(_TEXT, "agent", "channel_id", "topic_id"),
    **_all(_COUNT, "messages", "edits", "deletions", "moves", "characters"),
}


def _table(name: str, meaning: str, columns: dict[str, pa.DataType]) -> Table:
    return Table("gold", name, pa.schema({"db_id": _TEXT, **columns}), meaning)


ACTIVITY_HOUR: Final = _table("activity_hour", "what each agent did in each topic, by the hour", _ACTIVITY)
ACTIVITY_DAY: Final = _table("activity_day", "what each agent did in each topic, by the day", _ACTIVITY)
ANSWERS: Final = _table(
    "answers",
    "each message and each agent who answered it, by a reply (`reply`) or by speaking next (`next`)",
    {
        **_all(_TEXT, "channel_id", "topic_id", "question_id", "asker", "answerer"),
        "asked_at": _MOMENT,
        "answer_id": _TEXT,
        "answer_event_id": _COUNT,
        "answered_at": _MOMENT,
        "kind": _TEXT,
        "is_first": pa.bool_(),
        "latency_ms": _COUNT,
    },
)
PAIRS: Final = _table(
    "pairs",
    "who answers whom, how often and how fast",
    {"asker": _TEXT, "answerer": _TEXT, "answers": _COUNT, "by_reply": _COUNT, "messages": _COUNT, **_LATENCIES},
)
AGENTS: Final = _table(
    "agents",
    "each agent: what it said, what became of it, how fast it answers",
    {
        "agent": _TEXT,
        **_FATES,
        "topics": _COUNT,
        "channels": _COUNT,
        "first_at": _MOMENT,
        "last_at": _MOMENT,
        "answers_given": _COUNT,
        "messages_answered": _COUNT,
        **_LATENCIES,
        **_RATES,
    },
)
TOPICS: Final = _table(
    "topics",
    "each topic: how busy it is, how fast it is answered in, and why it is stuck, if it is",
    {
        **_all(_TEXT, "channel_id", "topic_id", "title"),
        "created_at": _MOMENT,
        **_FATES,
        "live": _COUNT,
        "agents": _COUNT,
        "first_sender": _TEXT,
        "first_at": _MOMENT,
        "last_sender": _TEXT,
        "last_at": _MOMENT,
        "answers": _COUNT,
        **_LATENCIES,
        "open_tasks": _COUNT,
        "as_of": _MOMENT,
        "quiet_ms": _COUNT,
        "stuck_reason": _TEXT,
        **_RATES,
    },
)
CHANNELS: Final = _table(
    "channels",
    "each channel: how busy it is, how fast it is answered in, and how many of its topics are stuck",
    {
        "channel_id": _TEXT,
        "name": _TEXT,
        "created_at": _MOMENT,
        **_FATES,
        **_all(_COUNT, "agents", "topics", "stuck_topics"),
        "first_at": _MOMENT,
        "last_at": _MOMENT,
        "answers": _COUNT,
        **_LATENCIES,
        **_RATES,
    },
)
UNANSWERED: Final = _table(
    "unanswered",
    "the threads in which one agent spoke and nobody answered in time",
    {
        **_all(_TEXT, "channel_id", "topic_id", "title", "asker"),
        "asked_at": _MOMENT,
        "messages": _COUNT,
        "waiting_ms": _COUNT,
    },
)
HUBS: Final = _table(
    "hubs",
    "each hub: its events, and what is odd about them",
    {
        "source": _TEXT,
        **_all(_COUNT, "events", "first_event_id", "last_event_id"),
        "first_at": _MOMENT,
        "last_at": _MOMENT,
        **_all(_COUNT, "untimed", "busy_hours", "events_in_peak_hour", "gaps", "missing", "clock_jumps", "back_ms_max"),
        "quarantined": _COUNT,
    },
)
HEALTH_HOUR: Final = _table(
    "health_hour",
    "events and new messages of each hub, by the hour",
    {"start": _MOMENT, "events": _COUNT, "messages": _COUNT},
)
IRREGULARITIES: Final = _table(
    "irregularities",
    "each event before which ids are missing, or whose time lies before that of the one before it",
    {
        "event_id": _COUNT,
        "previous_event_id": _COUNT,
        "ts": _TEXT,
        "previous_ts": _TEXT,
        "missing": _COUNT,
        "back_ms": _COUNT,
    },
)
QUARANTINE_REASONS: Final = _table(
    "quarantine_reasons",
    "how many events were set aside, and why",
    {"name": _TEXT, "reason": _TEXT, "events": _COUNT, "first_event_id": _COUNT},
)
TASK_TIMES: Final = _table(
    "task_times",
    "each task: how long until it was claimed and completed, and how often its holder was lost",
    {
        **_all(_TEXT, "task_id", "channel_id", "topic_id", "title", "status", "created_by", "holder"),
        **_all(_MOMENT, "created_at", "first_claimed_at", "completed_at", "cancelled_at"),
        **_all(_COUNT, "claims", "releases", "takeovers", "expiries", "claim_ms", "complete_ms"),
    },
)
LEASE_TIMES: Final = _table(
    "lease_times",
    "each holder of leases: how many, how they ended, and how long they were held",
    {
        "holder": _TEXT,
        **_all(_COUNT, "leases", "exclusive", "active", "expired"),
        **_LATENCIES,
    },
)

TABLES: Final = (
    ACTIVITY_HOUR,
    ACTIVITY_DAY,
    ANSWERS,
    PAIRS,
    AGENTS,
    TOPICS,
    CHANNELS,
    UNANSWERED,
    HUBS,
    HEALTH_HOUR,
    IRREGULARITIES,
    QUARANTINE_REASONS,
    TASK_TIMES,
    LEASE_TIMES,
)
