"""The parts of the report, from the headline to the checks: headings, figures, tables and sentences."""

from typing import Any, Final

from parley.pipeline.report import words
from parley.pipeline.report.findings import Check, Findings, Row, Verdict
from parley.pipeline.report.markup import Column, Markup, element, section, table
from parley.pipeline.report.mesh import mesh
from parley.pipeline.report.network import draw_network

_VERDICTS: Final[dict[Verdict, str]] = {"ok": "passed", "warn": "look", "error": "failed", "unknown": "not run"}
_REASONS: Final = {
    "open task": "a task is open",
    "open question": "the last message asks something",
    "unanswered": "nobody answered",
}


def top(found: Findings, made_at_ms: int) -> Markup:
    """The title, what the report is about, and the switch between light and dark."""
    totals = found.totals
    about = f"{words.count(len(found.hubs), 'hub')}, {words.count(totals.get('messages', 0), 'message')}"
    if totals.get("last_at"):
        about += f", {words.day(totals['first_at'])} to {words.day(totals['last_at'])}"
    title = element(
        "div",
        [
            element("p", "Parley", class_="brand"),
            element("h1", "How the agents work"),
            element("p", f"{about}. Made {words.moment(made_at_ms)} UTC.", class_="about"),
        ],
    )
    switch = element("button", "Dark", type="button", id="theme", class_="button")
    skip = element("a", "Skip to the content", href="#content", class_="skip")
    return element("header", [skip, element("div", [title, switch], class_="top")])


def bottom() -> Markup:
    """Where the numbers come from."""
    return element(
        "footer",
        element(
            "p",
            "Counted from the lake's gold tables; `parley pipeline sql` asks them anything else. All times are UTC."
            " An answer is a reply by name, else the next message of another sender in the topic within the"
            " configured time. Waiting is counted up to the last event of the hub.",
        ),
    )


def all_sections(found: Findings) -> list[Markup]:
    """The report from top to bottom."""
    if not found.totals.get("messages"):
        note = element("p", "Nobody has said anything yet. The charts come with the first messages.", class_="empty")
        return [section("activity", "Activity", [note]), hubs(found), *mesh(found), checks(found)]
    return [
        headline(found),
        activity(found),
        answers(found),
        agents(found),
        topics(found),
        work(found),
        hubs(found),
        *mesh(found),
        checks(found),
    ]


def _figure(chart: str, title: str, told: str, data: Markup | None = None, wide: bool = False) -> Markup:
    """A chart with its title, what it shows in words, and its numbers as a table."""
    drawing = element("div", "", class_="chart", data_chart=chart, role="img", aria_label=f"{title}. {told}")
    return _framed(title, told, drawing, data, wide)


def _framed(title: str, told: str, drawing: Markup, data: Markup | None, wide: bool) -> Markup:
    parts = [element("figcaption", [element("h3", title), element("p", told)]), drawing]
    if data is not None:
        parts.append(element("details", [element("summary", "The numbers"), data]))
    return element("figure", parts, class_="wide" if wide else None)


def headline(found: Findings) -> Markup:
    """The numbers that sum it up."""
    totals = found.totals
    tiles = [
        _tile("Messages", words.number(totals["messages"]), f"in {words.count(totals['topics'], 'topic')}"),
        _tile("Agents", words.number(totals["agents"]), f"in {words.count(totals['channels'], 'channel')}"),
        _tile("Answers", words.number(totals["answers"]), f"90 % within {words.duration(totals['p90_ms'])}"),
        _tile("Median answer", words.duration(totals["p50_ms"]), f"slowest {words.duration(totals['max_ms'])}"),
        _tile(
            "Stuck topics", words.number(totals["stuck_topics"]), "quiet, with something open", totals["stuck_topics"]
        ),
        _tile("Unanswered", words.number(totals["unanswered"]), "threads of one voice", totals["unanswered"]),
    ]
    return element("section", element("dl", tiles, class_="tiles"), aria_label="At a glance")


def _tile(name: str, value: str, note: str, alarming: int = 0) -> Markup:
    tone = "warn" if alarming else None
    shown = [
        element("dt", name),
        element("dd", value, class_="value", data_tone=tone),
        element("dd", note, class_="note"),
    ]
    return element("div", shown, class_="tile")


def activity(found: Findings) -> Markup:
    """When things are said, and by whom."""
    by_start: dict[int, int] = {}
    for row in found.timeline:
        by_start[row["start"]] = by_start.get(row["start"], 0) + row["messages"]
    busiest = max(by_start, key=lambda start: by_start[start], default=None)
    named = words.day if found.grain == "day" else words.moment
    told = "No message has a time."
    if busiest is not None:
        told = f"The busiest {found.grain} was {named(busiest)}, with {words.count(by_start[busiest], 'message')}."
    numbers = [(named(start), words.number(by_start[start])) for start in sorted(by_start, reverse=True)[:40]]
    over_time = table("Messages over time", [Column(found.grain), Column("messages", True)], numbers, "None.")
    peak = max(found.hours, key=lambda row: (row["messages"], -row["weekday"], -row["hour"]), default=None)
    heat = "No hour stands out."
    if peak is not None:
        heat = f"The liveliest hour is {_WEEKDAYS[peak['weekday']]}, {peak['hour']:02d}:00 UTC."
    return section(
        "activity",
        "Activity",
        [
            _figure("timeline", "Messages over time", told, over_time, wide=True),
            _figure("heat", "Hours of the week", heat, wide=True),
        ],
    )


_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def answers(found: Findings) -> Markup:
    """Who answers whom, and how fast."""
    if not found.pairs:
        return section("answers", "Who answers whom", [element("p", "Nobody answered anybody yet.", class_="empty")])
    first = found.pairs[0]
    told = (
        f"An arrow leads from who answers to who asked; the thicker, the more often. Most often"
        f" {words.name(first['answerer'])} answers {words.name(first['asker'])}:"
        f" {words.count(first['answers'], 'time')}."
    )
    columns = [
        Column("answers"),
        Column("asked by"),
        Column("times", True),
        Column("median", True),
        Column("90 %", True),
    ]
    numbers = [
        (
            words.name(pair["answerer"]),
            words.name(pair["asker"]),
            words.number(pair["answers"]),
            words.duration(pair["p50_ms"]),
            words.duration(pair["p90_ms"]),
        )
        for pair in found.pairs[:40]
    ]
    drawing = draw_network(found.agents, found.pairs)
    network = _framed(
        "The network",
        told,
        element("div", drawing, class_="scroll", tabindex="0", role="region", aria_label="The network"),
        table("Who answers whom", columns, numbers, "None."),
        wide=True,
    )
    totals = found.totals
    spread = (
        f"Half of {words.count(totals['measured'], 'answer')} came within {words.duration(totals['p50_ms'])},"
        f" 99 % within {words.duration(totals['p99_ms'])}."
    )
    buckets = [(row["up_to"], words.number(row["reply"]), words.number(row["next"])) for row in found.latencies]
    waited = [Column("up to"), Column("by reply", True), Column("by speaking next", True)]
    return section(
        "answers",
        "Who answers whom",
        [
            network,
            _figure("latency", "How long answers take", spread, table("How long answers take", waited, buckets, "")),
            _figure(
                "agent-latency",
                "How fast each agent answers",
                "Median, 90th and 99th percentile; the scale is logarithmic.",
            ),
        ],
    )


def agents(found: Findings) -> Markup:
    """What each agent did, and what became of it."""
    columns = [
        Column("agent"),
        Column("messages", True),
        Column("answers given", True),
        Column("median", True),
        Column("edited", True),
        Column("moved", True),
        Column("deleted", True),
        Column("last seen"),
    ]
    most = max((row["messages"] for row in found.agents), default=1)
    rows = [
        (
            words.name(row["agent"]),
            _bar(row["messages"], most),
            words.number(row["answers_given"]),
            words.duration(row["p50_ms"]),
            words.share(row["edit_rate"]),
            words.share(row["move_rate"]),
            words.share(row["delete_rate"]),
            words.moment(row["last_at"]),
        )
        for row in found.agents[:25]
    ]
    totals = found.totals
    lead = (
        f"Of all messages {words.share(totals['edited'] / totals['messages'])} were edited,"
        f" {words.share(totals['moved'] / totals['messages'])} moved and"
        f" {words.share(totals['deleted'] / totals['messages'])} deleted."
    )
    content = [table("Agents", columns, rows, "None.")]
    if totals["edited"] or totals["moved"] or totals["deleted"]:
        content.append(_figure("rates", "Edited, moved, deleted", "The share of each agent's own messages.", wide=True))
    return section("agents", "Agents", content, lead)


def _bar(value: int, most: int) -> Markup:
    width = f"width:{100 * value / max(most, 1):.1f}%"
    track = element("span", element("span", "", class_="fill", style=width), class_="track")
    return element("span", [track, element("span", words.number(value), class_="amount")], class_="bar")


def topics(found: Findings) -> Markup:
    """The busiest topics, those that are stuck, and what nobody answered."""
    most = max((row["messages"] for row in found.busiest), default=1)
    busy = [
        (
            words.name(row["title"]),
            words.name(row["channel"]),
            _bar(row["messages"], most),
            words.number(row["agents"]),
            words.duration(row["p50_ms"]),
            words.moment(row["last_at"]),
        )
        for row in found.busiest
    ]
    busy_columns = [
        Column("topic"),
        Column("channel"),
        Column("messages", True),
        Column("agents", True),
        Column("median", True),
        Column("last message"),
    ]
    stuck = [
        (
            words.name(row["title"]),
            words.name(row["channel"]),
            _state(_REASONS[row["stuck_reason"]], "warn"),
            words.name(row["last_sender"]),
            words.duration(row["quiet_ms"]),
        )
        for row in found.stuck
    ]
    stuck_columns = [
        Column("topic"),
        Column("channel"),
        Column("why"),
        Column("last word by"),
        Column("quiet for", True),
    ]
    waiting = [
        (
            words.name(row["title"]),
            words.name(row["channel"]),
            words.name(row["asker"]),
            words.number(row["messages"]),
            words.duration(row["waiting_ms"]),
        )
        for row in found.unanswered
    ]
    waiting_columns = [
        Column("topic"),
        Column("channel"),
        Column("asked by"),
        Column("messages", True),
        Column("waiting for", True),
    ]
    return section(
        "topics",
        "Topics",
        [
            element("h3", "Busiest"),
            table("Busiest topics", busy_columns, busy, "None."),
            element("h3", "Stuck"),
            table("Stuck topics", stuck_columns, stuck, "No topic is stuck."),
            element("h3", "Unanswered"),
            table("Unanswered threads", waiting_columns, waiting, "Every thread got an answer."),
        ],
    )


def _state(text: str, tone: str) -> Markup:
    return element("span", text, class_="state", data_tone=tone)


def work(found: Findings) -> Markup:
    """Tasks and leases."""
    if not found.tasks.get("tasks") and not found.leases:
        return section("tasks", "Tasks and leases", [element("p", "There are none in these hubs.", class_="empty")])
    tasks = found.tasks
    tiles = [
        _tile("Tasks", words.number(tasks["tasks"]), f"{words.number(tasks['completed'])} completed"),
        _tile("Open", words.number(tasks["open"]), f"{words.number(tasks['claimed'])} claimed"),
        _tile(
            "Until claimed", words.duration(tasks["claim_p50_ms"]), f"90 % in {words.duration(tasks['claim_p90_ms'])}"
        ),
        _tile(
            "Until done",
            words.duration(tasks["complete_p50_ms"]),
            f"90 % in {words.duration(tasks['complete_p90_ms'])}",
        ),
        _tile("Takeovers", words.number(tasks["takeovers"]), "from a holder who was gone", tasks["takeovers"]),
        _tile("Expired claims", words.number(tasks["expiries"]), "not renewed in time", tasks["expiries"]),
    ]
    open_rows = [
        (
            words.name(row["title"]),
            _state(words.name(row["status"]), "good" if row["status"] == "claimed" else "warn"),
            words.name(row["holder"]) or "–",
            words.name(row["created_by"]),
            words.moment(row["created_at"]),
        )
        for row in found.open_tasks
    ]
    open_columns = [Column("task"), Column("state"), Column("holder"), Column("made by"), Column("made at")]
    lease_rows = [
        (
            words.name(row["holder"]),
            *(words.number(row[name]) for name in ("leases", "exclusive", "active", "expired")),
            words.duration(row["p50_ms"]),
        )
        for row in found.leases
    ]
    lease_columns = [
        Column("holder"),
        *(Column(name, True) for name in ("leases", "exclusive", "active", "expired", "held, median")),
    ]
    return section(
        "tasks",
        "Tasks and leases",
        [
            element("dl", tiles, class_="tiles"),
            element("h3", "Not done yet"),
            table("Open tasks", open_columns, open_rows, "Every task is done."),
            element("h3", "Leases"),
            table("Leases by holder", lease_columns, lease_rows, "Nobody has leased anything."),
        ],
    )


def hubs(found: Findings) -> Markup:
    """How the hubs themselves are."""
    columns = [
        Column("hub"),
        *(Column(name, True) for name in ("events", "peak hour", "gaps", "ids missing", "clock back", "set aside")),
        Column("last event"),
    ]
    rows = [
        (
            _hub(row),
            words.number(row["events"]),
            words.number(row["events_in_peak_hour"]),
            _odd(row["gaps"]),
            _odd(row["missing"]),
            _odd(row["clock_jumps"]),
            _odd(row["quarantined"]),
            words.moment(row["last_at"]),
        )
        for row in found.hubs
    ]
    content = [table("Hubs", columns, rows, "The lake has no events yet.")]
    if found.health:
        peak = max(row["events"] for row in found.health)
        content.append(_figure("health", "Events by the hour", f"At most {words.number(peak)} in an hour.", wide=True))
    content += _oddities(found)
    return section("hubs", "Hub health", content)


def _oddities(found: Findings) -> list[Markup]:
    content: list[Markup] = []
    if found.irregularities:
        rows = [
            (
                words.number(row["event_id"]),
                words.number(row["missing"]),
                words.duration(row["back_ms"]) if row["back_ms"] else "–",
                words.name(row["previous_ts"]),
                words.name(row["ts"]),
            )
            for row in found.irregularities
        ]
        columns = [
            Column("event"),
            Column("ids missing", True),
            Column("clock back", True),
            Column("before"),
            Column("then"),
        ]
        content += [element("h3", "Gaps and clocks"), table("Gaps and clocks", columns, rows, "None.")]
    if found.quarantine:
        rows = [
            (
                words.name(row["name"]),
                words.name(row["reason"]),
                words.number(row["events"]),
                words.number(row["first_event_id"]),
            )
            for row in found.quarantine
        ]
        columns = [Column("event"), Column("why"), Column("how many", True), Column("first at", True)]
        content += [element("h3", "Set aside"), table("Events that were set aside", columns, rows, "None.")]
    return content


def _hub(row: Row) -> str:
    source = str(row.get("source") or "")
    return words.name(source.rstrip("/").rsplit("/", 1)[-1] or row["db_id"])


def _odd(value: int) -> Markup | str:
    return _state(words.number(value), "warn") if value else "0"


def checks(found: Findings) -> Markup:
    """What was checked, and how it came out."""
    order: dict[Any, int] = {"error": 0, "warn": 1, "unknown": 2, "ok": 3}
    ranked = sorted(found.checks, key=lambda check: order[check.verdict])
    failed = sum(check.verdict == "error" for check in found.checks)
    warned = sum(check.verdict == "warn" for check in found.checks)
    lead = (
        f"{words.count(len(found.checks), 'check')}: {words.number(failed)} failed, {words.number(warned)} to look at."
    )
    rows = [(words.name(check.name), _verdict(check), check.message) for check in ranked]
    columns = [Column("check"), Column("verdict"), Column("what was found")]
    return section("checks", "Quality checks", [table("Quality checks", columns, rows, "Nothing was checked.")], lead)


def _verdict(check: Check) -> Markup:
    tone = {"ok": "good", "warn": "warn", "error": "danger", "unknown": "plain"}[check.verdict]
    return _state(_VERDICTS[check.verdict], tone)
