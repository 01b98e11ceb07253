"""Gold in SQL: how the agents work, counted from silver's tables and from the events of bronze.

Conversations are read as they stand now: in the topics where the messages are, without those that were deleted. What
comes first is decided by the log's order, never by the clock. Percentiles are exact.
"""

from typing import Final

from parley.pipeline.engine.spec import Part, Spec
from parley.pipeline.lake.catalogue import gold

_FATES: Final = """count(*) AS messages, count_if(edits > 0) AS edited, count_if(moves > 0) AS moved,
            count_if(is_deleted) AS deleted"""
_LATENCIES: Final = """count(latency_ms) AS measured, percentile(latency_ms, array(0.5D, 0.9D, 0.99D)) AS shares,
            max(latency_ms) AS max_ms"""


def _shares(table: str) -> str:
    """The columns of a latency's distribution."""
    shares = (f"{table}.shares[{place}] AS {name}" for place, name in enumerate(("p50_ms", "p90_ms", "p99_ms")))
    return f"coalesce({table}.measured, 0) AS measured, {', '.join(shares)}, {table}.max_ms"


def _rates(table: str) -> str:
    """Which share of the messages was edited, moved and deleted; null where there are none."""
    parts = (("edit_rate", "edited"), ("move_rate", "moved"), ("delete_rate", "deleted"))
    return ", ".join(f"try_divide({table}.{part}, {table}.messages) AS {name}" for name, part in parts)


def _zero(table: str, *names: str) -> str:
    return ", ".join(f"coalesce({table}.{name}, 0) AS {name}" for name in names)


def _latency(start: str, end: str) -> str:
    """Milliseconds from one moment to the other; null where one is unknown or the clock ran backwards."""
    between = f"unix_millis({end}) - unix_millis({start})"
    return f"CASE WHEN {between} >= 0 THEN {between} END"


POSTS: Final = Part(
    "posts",
    """SELECT v.db_id, v.id AS message_id, v.posted_event_id AS event_id, v.sender, v.posted_time AS at, v.reply_to,
        t.channel_id, v.topic_id, v.asks, v.deletions > 0 AS is_deleted, v.edits, v.moves
    FROM {silver_message_versions} v
    LEFT JOIN (SELECT db_id, id, channel_id FROM {silver_topics}) t ON t.db_id = v.db_id AND t.id = v.topic_id
    WHERE v.valid_to_event IS NULL AND v.posted_event_id IS NOT NULL""",
)
"""Each message that was ever posted, as it stands now; what archives took is among them."""

_COUNTS: Final = ("messages", "edits", "deletions", "moves", "characters")
_SUMS: Final = ", ".join(f"sum({name}) AS {name}" for name in _COUNTS)
ACTIVITY_HOUR: Final = f"""
    SELECT db_id, start, agent, channel_id, topic_id, {_SUMS} FROM (
        SELECT v.db_id, date_trunc('hour', v.time) AS start,
            CASE v.change WHEN 'deleted' THEN coalesce(v.actor, v.sender) ELSE v.sender END AS agent,
            t.channel_id, v.topic_id,
            CAST(v.change = 'created' AS BIGINT) AS messages, CAST(v.change = 'edited' AS BIGINT) AS edits,
            CAST(v.change = 'deleted' AS BIGINT) AS deletions, CAST(v.change = 'moved' AS BIGINT) AS moves,
            CASE v.change WHEN 'created' THEN coalesce(v.characters, 0) ELSE 0 END AS characters
        FROM {{new_silver_message_versions}} v
        LEFT JOIN (SELECT db_id, id, channel_id FROM {{silver_topics}}) t ON t.db_id = v.db_id AND t.id = v.topic_id
        WHERE v.time IS NOT NULL AND v.posted_event_id IS NOT NULL
        UNION ALL
        SELECT db_id, start, agent, channel_id, topic_id, {", ".join(_COUNTS)} FROM {{before}}
    ) GROUP BY 1, 2, 3, 4, 5"""
"""A deletion counts for whoever deleted; an edit and a move count for the sender of the message, in the topic in which
it was after it."""
ACTIVITY_DAY: Final = f"""
    SELECT db_id, date_trunc('day', start) AS start, agent, channel_id, topic_id, {_SUMS}
    FROM {{gold_activity_hour}} GROUP BY 1, 2, 3, 4, 5"""

ANSWERS: Final = f"""
    WITH live AS (
        SELECT *, CASE WHEN reply_to IS NULL THEN struct(sender AS answerer, event_id, message_id, at) END AS speech
        FROM {{posts}} WHERE NOT is_deleted
    ), turns AS (
        SELECT *, CASE WHEN speech IS NOT NULL AND NOT sender <=> lag(speech.answerer) IGNORE NULLS OVER topic
            THEN speech END AS turn
        FROM live WINDOW topic AS (PARTITION BY db_id, topic_id ORDER BY event_id)
    ), following AS (
        SELECT *, lead(turn) IGNORE NULLS OVER topic AS next_turn FROM turns
        WINDOW topic AS (PARTITION BY db_id, topic_id ORDER BY event_id)
    ), questions AS (
        SELECT *, lead(CASE WHEN speech IS NOT NULL THEN struct(speech AS it, next_turn AS then) END)
            IGNORE NULLS OVER topic AS after
        FROM following WINDOW topic AS (PARTITION BY db_id, topic_id ORDER BY event_id)
    ), replies AS (
        SELECT db_id, question_id, collect_list(first) AS replies FROM (
            SELECT db_id, reply_to AS question_id, min_by(struct(sender AS answerer, event_id, message_id, at),
                event_id) AS first
            FROM live WHERE reply_to IS NOT NULL GROUP BY db_id, reply_to, sender
        ) GROUP BY db_id, question_id
    ), candidates AS (
        SELECT q.db_id, q.channel_id, q.topic_id, q.message_id AS question_id, q.sender AS asker, q.at AS asked_at,
            filter(r.replies, each -> each.answerer <> q.sender) AS replies,
            CASE WHEN q.after.it.answerer <> q.sender THEN q.after.it ELSE q.after.then END AS next
        FROM questions q LEFT JOIN replies r ON r.db_id = q.db_id AND r.question_id = q.message_id
    ), answered AS (
        SELECT *, CASE WHEN size(replies) > 0 THEN 'reply' ELSE 'next' END AS kind,
            CASE WHEN size(replies) > 0
                THEN array_sort(replies, (a, b) -> CASE WHEN a.event_id < b.event_id THEN -1 ELSE 1 END)
                WHEN next IS NOT NULL AND coalesce({_latency("asked_at", "next.at")} <= :window_ms, true)
                THEN array(next) END AS answers
        FROM candidates
    )
    SELECT db_id, channel_id, topic_id, question_id, asker, a.answerer, asked_at, a.message_id AS answer_id,
        a.event_id AS answer_event_id, a.at AS answered_at, kind, place = 0 AS is_first,
        {_latency("asked_at", "a.at")} AS latency_ms
    FROM answered LATERAL VIEW posexplode(answers) AS place, a"""
"""A message that names the one it replies to answers that one. A message that nobody replied to by name is answered by
the next message of another sender in its topic, if that came within the window and does not itself reply to something
else. ``turn`` marks where another sender takes over. An agent answers a message once, and nobody answers himself."""

_TOPICS_ASKED: Final = """
    SELECT db_id, topic_id FROM {new_silver_message_versions}
    UNION ALL SELECT db_id, old_topic_id FROM {new_silver_moves}
    UNION ALL SELECT q.db_id, q.topic_id FROM {silver_message_versions} q
    LEFT SEMI JOIN {new_silver_message_versions} r ON r.db_id = q.db_id AND r.reply_to = q.id
    WHERE q.valid_to_event IS NULL"""
"""Topics in which something was said or changed, and those of the messages that it replies to."""
_TALK: Final = """
    WITH newest AS (SELECT * FROM {rows} WHERE valid_to_event IS NULL),
    inside AS (SELECT * FROM newest r LEFT SEMI JOIN {touched} t ON t.db_id = r.db_id AND t.unit = r.topic_id)
    SELECT * FROM inside
    UNION ALL SELECT * FROM (
        SELECT * FROM newest r LEFT ANTI JOIN {touched} t ON t.db_id = r.db_id AND t.unit = r.topic_id
    ) r LEFT SEMI JOIN inside q ON q.db_id = r.db_id AND q.id = r.reply_to"""
"""The messages of these topics, and the replies to them from elsewhere."""

PAIRS: Final = f"""
    SELECT db_id, asker, answerer, answers, by_reply, messages, {_shares("p")} FROM (
        SELECT db_id, asker, answerer, count(*) AS answers, count_if(kind = 'reply') AS by_reply,
            size(collect_set(answer_id)) AS messages, {_LATENCIES}
        FROM {{gold_answers}} GROUP BY db_id, asker, answerer
    ) p"""

AGENTS: Final = f"""
    WITH said AS (
        SELECT db_id, sender AS agent, {_FATES}, size(collect_set(topic_id)) AS topics,
            size(collect_set(channel_id)) AS channels, min(at) AS first_at, max(at) AS last_at
        FROM {{posts}} GROUP BY db_id, sender
    ), gave AS (
        SELECT db_id, answerer AS agent, count(*) AS answers_given, {_LATENCIES}
        FROM {{gold_answers}} GROUP BY db_id, answerer
    ), got AS (
        SELECT db_id, asker AS agent, size(collect_set(question_id)) AS messages_answered
        FROM {{gold_answers}} GROUP BY db_id, asker
    )
    SELECT s.*, {_zero("g", "answers_given")}, {_zero("r", "messages_answered")}, {_shares("g")}, {_rates("s")}
    FROM said s LEFT JOIN gave g ON g.db_id = s.db_id AND g.agent = s.agent
    LEFT JOIN got r ON r.db_id = s.db_id AND r.agent = s.agent"""

TOPICS: Final = f"""
    WITH counted AS (
        SELECT db_id, topic_id, {_FATES}, count_if(NOT is_deleted) AS live,
            size(collect_set(CASE WHEN NOT is_deleted THEN sender END)) AS agents,
            min_by(struct(sender, at), event_id) FILTER (WHERE NOT is_deleted) AS first,
            max_by(struct(sender, at, asks), event_id) FILTER (WHERE NOT is_deleted) AS last
        FROM {{posts}} GROUP BY db_id, topic_id
    ), answered AS (
        SELECT db_id, topic_id, count(*) AS answers, {_LATENCIES} FROM {{gold_answers}} GROUP BY db_id, topic_id
    ), waiting AS (
        SELECT db_id, topic_id, count(*) AS open_tasks FROM {{silver_tasks}} WHERE status IN ('open', 'claimed')
        GROUP BY db_id, topic_id
    ), told AS (
        SELECT t.db_id, t.channel_id, t.id AS topic_id, t.title, try_to_timestamp(t.created_at) AS created_at,
            {_zero("c", "messages", "edited", "moved", "deleted", "live", "agents")},
            c.first.sender AS first_sender, c.first.at AS first_at, c.last.sender AS last_sender, c.last.at AS last_at,
            c.last.asks AS last_asks, {_zero("a", "answers")}, {_shares("a")}, {_zero("w", "open_tasks")},
            h.last_at AS as_of, {_latency("c.last.at", "h.last_at")} AS quiet_ms
        FROM {{silver_topics}} t
        LEFT JOIN counted c ON c.db_id = t.db_id AND c.topic_id = t.id
        LEFT JOIN answered a ON a.db_id = t.db_id AND a.topic_id = t.id
        LEFT JOIN waiting w ON w.db_id = t.db_id AND w.topic_id = t.id
        LEFT JOIN {{gold_hubs}} h ON h.db_id = t.db_id
    )
    SELECT * EXCEPT (last_asks),
        CASE WHEN quiet_ms > :stuck_ms THEN
            CASE WHEN open_tasks > 0 THEN 'open task' WHEN agents = 1 AND answers = 0 THEN 'unanswered'
                WHEN last_asks THEN 'open question' END
        END AS stuck_reason,
        {_rates("told")}
    FROM told"""
UNANSWERED: Final = """
    SELECT db_id, channel_id, topic_id, title, first_sender AS asker, first_at AS asked_at, live AS messages,
        quiet_ms AS waiting_ms
    FROM {gold_topics} WHERE agents = 1 AND answers = 0 AND quiet_ms > :window_ms"""

CHANNELS: Final = f"""
    WITH counted AS (
        SELECT db_id, channel_id, {_FATES}, size(collect_set(sender)) AS agents, min(at) AS first_at,
            max(at) AS last_at
        FROM {{posts}} GROUP BY db_id, channel_id
    ), held AS (
        SELECT db_id, channel_id, count(*) AS topics, count_if(stuck_reason IS NOT NULL) AS stuck_topics
        FROM {{gold_topics}} GROUP BY db_id, channel_id
    ), answered AS (
        SELECT db_id, channel_id, count(*) AS answers, {_LATENCIES} FROM {{gold_answers}} GROUP BY db_id, channel_id
    ), told AS (
        SELECT n.db_id, n.id AS channel_id, n.name, try_to_timestamp(n.created_at) AS created_at,
            {_zero("c", "messages", "edited", "moved", "deleted", "agents")}, {_zero("h", "topics", "stuck_topics")},
            c.first_at, c.last_at, {_zero("a", "answers")}, {_shares("a")}
        FROM {{silver_channels}} n
        LEFT JOIN counted c ON c.db_id = n.db_id AND c.channel_id = n.id
        LEFT JOIN held h ON h.db_id = n.db_id AND h.channel_id = n.id
        LEFT JOIN answered a ON a.db_id = n.db_id AND a.channel_id = n.id
    )
    SELECT *, {_rates("told")} FROM told"""

HEALTH_HOUR: Final = """
    SELECT db_id, start, sum(events) AS events, sum(messages) AS messages FROM (
        SELECT db_id, date_trunc('hour', try_to_timestamp(ts)) AS start, CAST(1 AS BIGINT) AS events,
            CAST(name = 'message.created' AS BIGINT) AS messages
        FROM {events} WHERE try_to_timestamp(ts) IS NOT NULL
        UNION ALL
        SELECT db_id, start, events, messages FROM {before}
    ) GROUP BY 1, 2"""

_BLOCK: Final = 100_000
"""Event ids that are compared by one task, so that the history of one large hub is spread over all of them."""
IRREGULARITIES: Final = f"""
    WITH blocks AS (
        SELECT db_id, event_id, ts, event_id div {_BLOCK} AS block
        FROM (SELECT db_id, event_id, ts FROM {{events}} UNION ALL SELECT db_id, event_id, ts FROM {{edge}})
    ), inside AS (
        SELECT db_id, event_id, ts, lag(event_id) OVER hub AS previous_event_id, lag(ts) OVER hub AS previous_ts
        FROM blocks WINDOW hub AS (PARTITION BY db_id, block ORDER BY event_id)
    ), borders AS (
        SELECT db_id, block, min(struct(event_id, ts)) AS first, max(struct(event_id, ts)) AS last
        FROM blocks GROUP BY db_id, block
    ), across AS (
        SELECT db_id, first.event_id, first.ts, lag(last.event_id) OVER hub AS previous_event_id,
            lag(last.ts) OVER hub AS previous_ts
        FROM borders WINDOW hub AS (PARTITION BY db_id ORDER BY block)
    ), compared AS (
        SELECT db_id, event_id, previous_event_id, ts, previous_ts, event_id - previous_event_id - 1 AS missing,
            greatest(coalesce(unix_millis(try_to_timestamp(previous_ts)) - unix_millis(try_to_timestamp(ts)), 0), 0)
                AS back_ms
        FROM (SELECT * FROM inside UNION ALL SELECT * FROM across) WHERE previous_event_id IS NOT NULL
    )
    SELECT * FROM compared WHERE missing > 0 OR back_ms > 0"""
"""Each event after which ids are missing, or the time runs backwards. Neighbours are compared inside blocks of ids and
then across their borders."""

HUBS: Final = f"""
    WITH known AS (
        SELECT db_id, max_by(source, event_id) AS source, count(*) AS events, min(event_id) AS first_event_id,
            max(event_id) AS last_event_id, min(at) AS first_at, max(at) AS last_at, count_if(at IS NULL) AS untimed
        FROM (SELECT db_id, event_id, source, try_to_timestamp(ts) AS at FROM {{bronze_events}}) GROUP BY db_id
    ), peaks AS (
        SELECT db_id, count(*) AS busy_hours, max(events) AS events_in_peak_hour FROM {{gold_health_hour}}
        GROUP BY db_id
    ), odd AS (
        SELECT db_id, count_if(missing > 0) AS gaps, sum(missing) AS missing, count_if(back_ms > 0) AS clock_jumps,
            max(back_ms) AS back_ms_max
        FROM {{gold_irregularities}} GROUP BY db_id
    ), refused AS (
        SELECT db_id, count(*) AS quarantined FROM {{silver_quarantine}} GROUP BY db_id
    )
    SELECT k.*, {_zero("p", "busy_hours", "events_in_peak_hour")},
        {_zero("o", "gaps", "missing", "clock_jumps", "back_ms_max")}, {_zero("r", "quarantined")}
    FROM known k LEFT JOIN peaks p ON p.db_id = k.db_id LEFT JOIN odd o ON o.db_id = k.db_id
    LEFT JOIN refused r ON r.db_id = k.db_id"""

QUARANTINE_REASONS: Final = """
    SELECT db_id, name, reason, count(*) AS events, min(event_id) AS first_event_id
    FROM {silver_quarantine} GROUP BY db_id, name, reason"""


def _first(name: str, column: str) -> str:
    return f"min_by(at, event_id) FILTER (WHERE name IN ({name})) AS {column}"


WORK: Final = Part(
    "work",
    """SELECT db_id, event_id, name, entity_id, try_to_timestamp(ts) AS at FROM {bronze_events}
    WHERE startswith(name, 'task.') OR startswith(name, 'lease.')""",
)
TASK_TIMES: Final = f"""
    WITH history AS (
        SELECT db_id, entity_id, {_first("'task.created'", "created_at")},
            {_first("'task.claimed'", "first_claimed_at")}, {_first("'task.completed'", "completed_at")},
            {_first("'task.cancelled'", "cancelled_at")}, count_if(name = 'task.claimed') AS claims,
            count_if(name = 'task.released') AS releases, count_if(name = 'task.taken_over') AS takeovers,
            count_if(name = 'task.expired') AS expiries
        FROM {{work}} WHERE startswith(name, 'task.') GROUP BY db_id, entity_id
    )
    SELECT t.db_id, t.id AS task_id, t.channel_id, t.topic_id, t.title, t.status, t.created_by, t.holder,
        h.* EXCEPT (db_id, entity_id), {_latency("h.created_at", "h.first_claimed_at")} AS claim_ms,
        {_latency("h.created_at", "h.completed_at")} AS complete_ms
    FROM {{silver_tasks}} t JOIN history h ON h.db_id = t.db_id AND h.entity_id = t.id"""
LEASE_TIMES: Final = f"""
    WITH history AS (
        SELECT db_id, entity_id, {_first("'lease.acquired'", "acquired_at")},
            {_first("'lease.released', 'lease.expired'", "ended_at")}
        FROM {{work}} WHERE startswith(name, 'lease.') GROUP BY db_id, entity_id
    ), held AS (
        SELECT l.db_id, l.holder, l.mode, l.status, {_latency("h.acquired_at", "h.ended_at")} AS latency_ms
        FROM {{silver_leases}} l JOIN history h ON h.db_id = l.db_id AND h.entity_id = l.id
    ), counted AS (
        SELECT db_id, holder, count(*) AS leases, count_if(mode = 'exclusive') AS exclusive,
            count_if(status = 'active') AS active, count_if(status = 'expired') AS expired, {_LATENCIES}
        FROM held GROUP BY db_id, holder
    )
    SELECT db_id, holder, leases, exclusive, active, expired, {_shares("c")} FROM counted c"""

_ACTIVITY_KEY: Final = ("db_id", "start", "agent", "topic_id")
PARTS: Final = (POSTS, WORK)
SPECS: Final = (
    Spec(
        gold.ACTIVITY_HOUR,
        ACTIVITY_HOUR,
        _ACTIVITY_KEY,
        unit="start",
        touched="SELECT db_id, date_trunc('hour', time) AS start FROM {new_silver_message_versions}",
    ),
    Spec(
        gold.ACTIVITY_DAY,
        ACTIVITY_DAY,
        _ACTIVITY_KEY,
        unit="start",
        touched="SELECT db_id, date_trunc('day', time) AS start FROM {new_silver_message_versions}",
        sees={
            gold.ACTIVITY_HOUR.view: "SELECT * FROM {rows} r LEFT SEMI JOIN {touched} t"
            " ON t.db_id = r.db_id AND t.unit = date_trunc('day', r.start)"
        },
    ),
    Spec(
        gold.ANSWERS,
        ANSWERS,
        ("db_id", "question_id", "answerer"),
        unit="topic_id",
        touched=_TOPICS_ASKED,
        sees={"silver_message_versions": _TALK},
    ),
    Spec(gold.PAIRS, PAIRS, ("db_id", "asker", "answerer")),
    Spec(gold.AGENTS, AGENTS, ("db_id", "agent")),
    Spec(gold.TOPICS, TOPICS, ("db_id", "topic_id")),
    Spec(gold.CHANNELS, CHANNELS, ("db_id", "channel_id")),
    Spec(gold.UNANSWERED, UNANSWERED, ("db_id", "topic_id")),
    Spec(gold.HUBS, HUBS, ("db_id",)),
    Spec(
        gold.HEALTH_HOUR,
        HEALTH_HOUR,
        ("db_id", "start"),
        unit="start",
        touched="SELECT db_id, date_trunc('hour', try_to_timestamp(ts)) AS start FROM {events}",
    ),
    Spec(gold.IRREGULARITIES, IRREGULARITIES, ("db_id", "event_id"), appends=True),
    Spec(gold.QUARANTINE_REASONS, QUARANTINE_REASONS, ("db_id", "name", "reason")),
    Spec(gold.TASK_TIMES, TASK_TIMES, ("db_id", "task_id")),
    Spec(gold.LEASE_TIMES, LEASE_TIMES, ("db_id", "holder")),
)
