"""Findings of a team that worked for three weeks, and of one that chose every name to do harm."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from parley.pipeline.report.findings import BUCKETS, Check, Findings
from tests.browser import xss

START_MS = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
DAYS = 21
NAMES = ("planner", "builder", "reviewer", "tester", "scribe", "ada", "deployer", "researcher", "triage")
TITLES = (
    "Checkout is slow on phones",
    "Flaky login test",
    "Move CI to the new runners",
    "Accessibility audit",
    "Nightly backup",
    "Dark mode for receipts",
    "Vector search for the docs",
    "Release 2.5",
)
CHANNELS = ("web", "infra", "research", "releases")

Namer = Callable[[str], str]


def team() -> Findings:
    """A plausible team."""
    return _findings(str)


def hostile() -> Findings:
    """The same team, every name of which is a text that has run as code in some page, and many more of it."""
    payloads = iter([xss.armed(number) for number in range(len(xss.PAYLOADS))] * 20)
    chosen: dict[str, str] = {}
    found = _findings(lambda name: chosen.setdefault(name, next(payloads)))
    for number in range(len(xss.PAYLOADS)):
        text = xss.armed(number)
        found.agents.append({**found.agents[0], "agent": text, "messages": 1})
        found.busiest.append({**found.busiest[0], "title": text, "channel": text})
        found.checks.append(Check(text, "warn", text))
        found.quarantine.append({"db_id": text, "name": text, "reason": text, "events": 1, "first_event_id": 1})
        found.hubs.append({**found.hubs[0], "db_id": text, "source": text})
        found.deliveries.append({**found.deliveries[0], "mesh": text, "priority": text})
        found.pairs.insert(0, {**found.pairs[0], "asker": text, "answerer": found.agents[0]["agent"]})
    return found


def _deliveries(mesh: str) -> dict[str, Any]:
    counted = {"deliveries": 812, "delivered": 790, "open": 19, "dead": 3, "undecryptable": 1, "repeated": 24}
    measured = {"measured": 790, "p50_ms": 34.0, "p90_ms": 81.0, "p99_ms": 412.0, "max_ms": 86_400_000}
    oldest = START_MS + 20 * DAY_MS
    return {"mesh_id": "mesh_1", "mesh": mesh, "priority": "next", **counted, **measured, "oldest_open_at": oldest}


def _findings(named: Namer) -> Findings:
    chance = random.Random(11)
    found = Findings(grain="day")
    found.deliveries = [_deliveries(named("home"))]
    end = START_MS + DAYS * DAY_MS - 3 * HOUR_MS
    weights = {name: 1.0 / (place + 1.4) for place, name in enumerate(NAMES)}
    found.timeline = _timeline(chance, weights, named)
    found.hours = [
        {"weekday": day, "hour": hour, "messages": round(chance.random() * _liveliness(day, hour) * 60)}
        for day in range(7)
        for hour in range(24)
    ]
    found.agents = [_agent(chance, named(name), round(2400 * weights[name]), end) for name in NAMES]
    found.pairs = _pairs(chance, weights, named)
    shape = (40, 130, 310, 420, 610, 380, 240, 90, 40, 12)
    found.latencies = [
        {"up_to": name, "reply": count, "next": round(count * 0.6)}
        for (name, _), count in zip(BUCKETS, shape, strict=True)
    ]
    _add_places(found, chance, named, end)
    _add_work(found, named)
    _add_health(found, chance, end)
    messages = sum(agent["messages"] for agent in found.agents)
    found.totals = {
        "messages": messages,
        "edited": 210,
        "moved": 41,
        "deleted": 63,
        "agents": len(NAMES),
        "topics": 148,
        "channels": len(CHANNELS),
        "stuck_topics": 3,
        "unanswered": 2,
        "answers": 3635,
        "first_at": START_MS,
        "last_at": end,
        **_measured(3600, 94_000),
    }
    found.checks = [
        Check("replay equals the tables", "ok", "9,812 rows of 2 hubs are equal, column by column"),
        Check("event ids without gaps", "ok", "no id is missing"),
        Check("clocks run forward", "warn", "one event is 4.2 s before the one before it"),
        Check("events that were set aside", "warn", "2 events of 1 kind"),
    ]
    return found


def _liveliness(day: int, hour: int) -> float:
    at_work = 1.0 if 8 <= hour <= 18 else 0.16
    return at_work * (0.18 if day >= 5 else 1.0) * (0.6 if hour == 12 else 1.0)


def _timeline(chance: random.Random, weights: dict[str, float], named: Namer) -> list[dict[str, Any]]:
    return [
        {
            "start": START_MS + day * DAY_MS,
            "agent": named(name),
            "messages": round(weights[name] * (0.2 if day % 7 >= 5 else 1.0) * chance.uniform(90, 190)),
        }
        for day in range(DAYS)
        for name in NAMES
    ]


def _measured(count: int, median: float) -> dict[str, Any]:
    return {
        "measured": count,
        "p50_ms": median,
        "p90_ms": median * 7,
        "p99_ms": median * 60,
        "max_ms": round(median * 400),
    }


def _agent(chance: random.Random, name: str, messages: int, end: int) -> dict[str, Any]:
    edited, moved, deleted = (round(messages * chance.uniform(0, high)) for high in (0.12, 0.03, 0.05))
    return {
        "agent": name,
        "messages": messages,
        "edited": edited,
        "moved": moved,
        "deleted": deleted,
        "edit_rate": edited / messages,
        "move_rate": moved / messages,
        "delete_rate": deleted / messages,
        "answers_given": round(messages * chance.uniform(0.4, 0.8)),
        "messages_answered": round(messages * 0.6),
        "last_at": end - round(chance.random() * DAY_MS),
        **_measured(messages // 2, 20_000 * chance.uniform(0.4, 9)),
    }


def _pairs(chance: random.Random, weights: dict[str, float], named: Namer) -> list[dict[str, Any]]:
    pairs = [
        {
            "asker": named(asker),
            "answerer": named(answerer),
            "answers": round(900 * weights[asker] * weights[answerer] * chance.uniform(0.3, 1.6)),
            **_measured(40, 30_000 * chance.uniform(0.5, 6)),
        }
        for asker in NAMES
        for answerer in NAMES
        if asker != answerer and chance.random() < 0.62
    ]
    return sorted((pair for pair in pairs if pair["answers"]), key=lambda pair: -pair["answers"])


def _add_places(found: Findings, chance: random.Random, named: Namer, end: int) -> None:
    rows = [
        {
            "db_id": "hub-a",
            "title": named(title),
            "channel": named(chance.choice(CHANNELS)),
            "messages": 260 - 31 * place,
            "agents": chance.randint(2, 7),
            "last_at": end - place * 5 * HOUR_MS,
            "last_sender": named(chance.choice(NAMES)),
            "quiet_ms": (30 + place * 21) * HOUR_MS,
            **_measured(50, 60_000 * chance.uniform(0.4, 3)),
        }
        for place, title in enumerate(TITLES)
    ]
    found.busiest = rows
    reasons = ("unanswered", "open task", "open question")
    found.stuck = [{**row, "stuck_reason": reason} for row, reason in zip(rows[-3:], reasons, strict=True)]
    found.unanswered = [
        {"title": row["title"], "channel": row["channel"], "asker": row["last_sender"], "messages": 1 + n,
         "waiting_ms": row["quiet_ms"]}
        for n, row in enumerate(rows[2:4])
    ]  # fmt: skip


def _add_work(found: Findings, named: Namer) -> None:
    found.tasks = {
        "tasks": 64,
        "open": 5,
        "claimed": 4,
        "completed": 52,
        "cancelled": 3,
        "claims": 71,
        "releases": 6,
        "takeovers": 2,
        "expiries": 5,
        "claim_p50_ms": 95_000,
        "claim_p90_ms": 1_500_000,
        "complete_p50_ms": 4_100_000,
        "complete_p90_ms": 31_000_000,
    }
    found.open_tasks = [
        {"title": named(title), "status": status, "holder": holder and named(holder), "created_by": named("planner"),
         "created_at": START_MS + place * DAY_MS}
        for place, (title, status, holder) in enumerate(
            (("Swap the fonts", "claimed", "builder"), ("Write the release notes", "open", None))
        )
    ]  # fmt: skip
    found.leases = [
        {"holder": named(name), "leases": 40 - 9 * place, "exclusive": 30 - 8 * place, "active": place, "expired": 1,
         **_measured(30, 700_000)}
        for place, name in enumerate(("builder", "reviewer", "tester"))
    ]  # fmt: skip


def _add_health(found: Findings, chance: random.Random, end: int) -> None:
    found.hubs = [
        {
            "db_id": f"hub-{name}",
            "source": f"/projects/{name}",
            "events": events,
            "events_in_peak_hour": events // 60,
            "gaps": 0,
            "missing": 0,
            "clock_jumps": jumps,
            "quarantined": 2 * jumps,
            "last_at": end,
        }
        for name, events, jumps in (("shop", 18_240, 0), ("billing", 6_910, 1))
    ]
    found.health = [
        {
            "start": end - end % HOUR_MS - (119 - hour) * HOUR_MS,
            "events": round(260 * _liveliness(0, hour % 24) * chance.uniform(0.4, 1)),
        }
        for hour in range(120)
    ]
    found.irregularities = [
        {
            "event_id": 5121,
            "missing": 0,
            "back_ms": 4_200,
            "previous_ts": "2026-03-11T10:14:09.310Z",
            "ts": "2026-03-11T10:14:05.110Z",
        }
    ]
    found.quarantine = [
        {
            "db_id": "hub-billing",
            "name": "message.created",
            "reason": "the payload is no JSON",
            "events": 2,
            "first_event_id": 88,
        }
    ]
