"""kill -9 of the real hub while its plugins work, again and again.

Agents post, edit, move and delete; the built-in plugins look for paths and links in real sandboxes; the hub is killed
at a random moment: while a sandbox is built, while a plugin runs, while results are committed. What plugins find is a
pure function of a message's content, so the judge knows what must be in the tables at any moment: a live message has
exactly the findings of its newest version, or a job that says they are still to come.
"""

import asyncio
import contextlib
import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from bench.load.http import HttpPeer, json_body, status
from bench.load.hub import Hub
from parley.core.canonical import canonical_json
from parley.core.clock import SystemClock
from parley.core.fold import FoldError, differences, fold
from parley.core.ids import IdSource
from parley.core.settings import UrlSettings
from parley.hub.rules.messages import create_message, delete_message
from parley.hub.transaction import Tx
from parley.plugin.builtin import links, urls
from parley.plugin.session import plugin_message
from parley.plugin.validate import check_attachments, check_enrichments
from parley.sqlite import integrity_check, open_reader
from parley.wire.entities import Message
from parley.wire.requests import CreateMessage, DeleteMessage
from parley.workspace import queries
from tests.campaign.forked import ForkedHub, ForkedStart
from tests.campaign.report import Report
from tests.hub.derived.world import all_processes, jails

AGENTS = 4
KILLS_PER_WORKSPACE = 10
WARM_SHARE = 0.7
"""Of the kills come after the plugins have begun to work; the others at any moment from the start."""
LOAD_SECONDS = (0.0, 0.6)
KILLED_START_SHARE = 0.2
START_SECONDS = (0.0, 0.3)
SETTLE_SECONDS = 180.0
KINDS = ("post", "post", "post", "edit", "edit", "move", "delete")
METADATA_BYTES_MAX = 16_384
CONFIG = """
[urls]
extract = false
[plugin_defaults]
settle_ms = 20
batch = 4
workers = 2
deadline_seconds = 60
[[plugins]]
name = "links"
type = "linkifier"
[[plugins]]
name = "urls"
type = "extractor"
"""
"""Links are left to the plugin; small batches and short waits have many commits, for a kill to come between. A plugin
gives way to all else on the machine, so its deadline is one that a busy machine keeps."""


async def derived_kills(folder: Path, *, kills: int, seed: int, keep: Path | None = None) -> Report:
    """``keep`` gets a copy of each workspace as its last kill left it.

    Control: copies of a database with a finding taken away, changed or there twice, and with jobs never written.
    """
    report = Report("derived", seed)
    rng = random.Random(seed)
    waited = 0
    for first in range(0, kills, KILLS_PER_WORKSPACE):
        place = folder / f"workspace-{first}"
        known = _Known()
        for number in range(first, min(first + KILLS_PER_WORKSPACE, kills)):
            if rng.random() < KILLED_START_SHARE:
                ForkedStart(place).kill(after_seconds=rng.uniform(*START_SECONDS))
            report.violations += [f"kill {number}: {problem}" for problem in await _kill_once(place, known, rng)]
            report.runs += 1
            waited += _jobs_in(place)
        if keep is not None:
            shutil.copytree(place, keep / f"derived-{first}")
        report.violations += [f"end of {place.name}: {problem}" for problem in await _finish(place)]
        if not report.control:
            report.control = control(_database(place), folder / "control")
        shutil.rmtree(place)
    report.facts = {"jobs_left_by_kills": waited}
    if not waited:
        report.violations.append("no kill came while there was work: nothing was shown")
    return report


class _Known:
    """What the agents of one workspace know of it."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.messages: list[str] = []
        self.said = 0

    def content(self, rng: random.Random) -> str:
        self.said += 1
        pages = f"https://example.org/{self.said} https://example.org/often/{rng.randrange(9)}"
        return f"see src/m{self.said}.py:{self.said} and {pages} {'é' * rng.randrange(9)}"


async def _kill_once(place: Path, known: _Known, rng: random.Random) -> list[str]:
    """Lets a hub work for a moment and kills it; what is wrong with what it leaves behind."""
    hub = Hub(place, config=CONFIG, launch=ForkedHub)
    try:
        if not known.topics:
            known.topics = await hub.make_topics("campaign", "one", "two")
        peers = await hub.connect(AGENTS)
        talking = asyncio.gather(*(_talk(hub, peer, known, random.Random(rng.random())) for peer in peers))
        if rng.random() < WARM_SHARE:
            await _until(hub, lambda links, urls: links["runs_total"] and urls["runs_total"])
        await asyncio.sleep(rng.uniform(*LOAD_SECONDS))
        jailed = jails(hub.process.pid)
    finally:
        hub.process.kill()
    await talking
    problems = [] if await _are_gone(jailed) else ["a plugin outlived its hub"]
    with contextlib.closing(open_reader(_database(place))) as database:
        return problems + judge_derived(database)


async def _talk(hub: Hub, peer: HttpPeer, known: _Known, rng: random.Random) -> None:
    """One agent, until the hub is gone."""
    with contextlib.suppress(OSError, EOFError):
        while True:
            kind = rng.choice(KINDS)
            if kind == "post" or not known.messages:
                body = {"topic_id": rng.choice(known.topics), "sender": "agent", "content_raw": known.content(rng)}
                reply = await peer.call(hub.request("POST", "/api/v1/messages", body))
                if status(reply) == 201:
                    known.messages.append(json_body(reply)["message"]["id"])
                continue
            bodies: dict[str, dict[str, Any]] = {
                "edit": {"op": "edit", "content_raw": known.content(rng)},
                "move": {"op": "move_topic", "to_topic_id": rng.choice(known.topics), "mode": "one"},
                "delete": {"op": "delete", "actor": "agent"},
            }
            path = f"/api/v1/messages/{rng.choice(known.messages)}"
            await peer.call(hub.request("PATCH", path, bodies[kind]))
    peer.close()


async def _finish(place: Path) -> list[str]:
    """Lets a last hub do what is left, and looks at all of it."""
    with Hub(place, config=CONFIG, launch=ForkedHub) as hub:
        if not await _until(hub, lambda *plugins: not any(each["waiting"] for each in plugins)):
            return ["the work is not done"]
    with contextlib.closing(open_reader(_database(place))) as database:
        left = database.execute("SELECT plugin_name, state, problem FROM jobs").fetchall()
        return judge_derived(database) + [f"a job is left: {job}" for job in left]


async def _until(hub: Hub, reached: Callable[..., Any]) -> bool:
    """Waits for what the plugins of a hub do; whether they did."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not reached(*(await hub.ask("GET", "/api/v1/plugins"))["plugins"]):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


async def _are_gone(pids: set[int]) -> bool:
    deadline = time.monotonic() + SETTLE_SECONDS
    while pids & all_processes().keys():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


def judge_derived(database: apsw.Connection) -> list[str]:
    """What is wrong: damage, findings that are missing, double, stale or told of twice, jobs of nothing."""
    problems = [f"damaged: {problem}" for problem in integrity_check(database)]
    events = list(queries.logged_events(database))
    try:
        folded = fold(events)
    except FoldError as error:
        return [*problems, f"the log contradicts itself: {error}"]
    stored = queries.stored_state(database)
    problems += [f"log and table disagree: {difference}" for difference in differences(folded, stored)]
    jobs = set(database.execute("SELECT message_id, plugin_name FROM jobs").fetchall())
    seen: dict[str, Counter[Any]] = defaultdict(Counter)
    for row in stored.enrichments.values():
        if not row["outdated"]:
            seen[row["message_id"]][row["kind"], row["span_start"], row["span_end"], row["data_json"]] += 1
    urls_there = {row["value_json"] for row in stored.topic_attachments.values()}
    for row in stored.messages.values():
        problems += _wrong_with(Message(**row), jobs, seen[row["id"]], urls_there)
    return problems + _told_wrongly(events)


def _wrong_with(message: Message, jobs: set[Any], mine: Counter[Any], urls_there: set[str]) -> list[str]:
    """What is wrong with what plugins found in one message, of which readers see ``mine``."""
    if message.deleted_at is not None:
        waiting = [name for name in ("links", "urls") if (message.id, name) in jobs]
        return [f"{message.id} is deleted and has {mine or waiting}"] if mine or waiting else []
    read = plugin_message(message)
    expected = Counter(
        (each.kind, each.span.start, each.span.end, canonical_json(each.data).decode())
        for each in check_enrichments(read, _plain(links.enrich(read, {})), METADATA_BYTES_MAX).enrichments
    )
    problems: list[str] = []
    if mine != expected and ((message.id, "links") not in jobs or mine):
        problems.append(f"{message.id} at version {message.version} has {mine} instead of {expected}")
    if (message.id, "urls") not in jobs:
        found = check_attachments(read, _plain(urls.extract(read, {})), METADATA_BYTES_MAX).attachments
        missing = {canonical_json(each.value_json).decode() for each in found} - urls_there
        problems += [f"{message.id} has no attachment {each}" for each in missing]
    return problems


def _plain(results: Any) -> list[Any]:
    """What a worker would send."""
    return msgspec.json.decode(msgspec.json.encode(list(results)))


def _told_wrongly(events: list[Any]) -> list[str]:
    """Events about a version that was not the message's at that moment, and events that tell a thing twice."""
    problems: list[str] = []
    versions: dict[str, int] = {}
    told: Counter[Any] = Counter()
    for event in events:
        data = event.data
        if event.name == "message.created":
            versions[data["message"]["id"]] = 1
        elif event.name == "message.deleted":
            versions.pop(data["message_id"])
        elif event.name in ("message.edited", "message.moved_topic") and data["message_id"] in versions:
            versions[data["message_id"]] = data["version"]
        elif event.name == "message.enriched":
            told[data["message_id"], data["plugin_name"], data["version"]] += 1
            if versions.get(data["message_id"]) != data["version"]:
                problems.append(f"event {event.event_id} tells of version {data['version']} of {data['message_id']}")
        elif event.name == "topic.attachment_added":
            attachment = data["attachment"]
            told[attachment["topic_id"], attachment["kind"], attachment["dedupe_key"]] += 1
    return problems + [f"told {count} times: {thing}" for thing, count in told.items() if count > 1]


_ONE: Final = "(SELECT min(id) FROM enrichments WHERE outdated = 0)"
_DOUBLE: Final = (
    "INSERT INTO enrichments (id, message_id, kind, span_start, span_end, data_json, created_at, plugin_name)"
    " SELECT id || '2', message_id, kind, span_start, span_end, data_json, created_at, plugin_name"
    f" FROM enrichments WHERE id = {_ONE}"
)
_JOB: Final = (
    "INSERT INTO jobs (message_id, plugin_name, not_before_ms, queued_at)"
    " SELECT id, 'links', 1, created_at FROM messages WHERE id = ?"
)
_BROKEN: Final[tuple[Callable[[apsw.Connection], Any], ...]] = (
    lambda db: db.execute(f"DELETE FROM enrichments WHERE id = {_ONE}"),
    lambda db: db.execute(f"UPDATE enrichments SET span_end = span_end + 1 WHERE id = {_ONE}"),
    lambda db: db.execute(_DOUBLE),
    lambda db: _delete_and_leave_job(db, "see src/gone.py:1"),
    lambda db: _post_without_job(db, "see src/lost.py:1"),
    lambda db: _post_without_job(db, "see https://example.org/lost"),
)


def control(database: Path, folder: Path) -> list[str]:
    """What the judge says of broken copies; empty if it passed any of them."""
    folder.mkdir(exist_ok=True)
    found: list[str] = []
    for number, break_it in enumerate(_BROKEN):
        copy = folder / f"broken-{number}.sqlite3"
        shutil.copyfile(database, copy)
        with contextlib.closing(apsw.Connection(str(copy))) as connection:
            break_it(connection)
            problems = judge_derived(connection)
        if not problems:
            return []
        found += problems
    return found


def _post_without_job(connection: apsw.Connection, content: str) -> str:
    """What a hub would do that forgets its plugins; the message's id."""
    topic: Any = connection.execute("SELECT min(id) FROM topics").fetchone()
    request = CreateMessage(topic[0], "agent", content)
    return create_message(_writing(connection), request, UrlSettings(extract=False)).message.id


def _delete_and_leave_job(connection: apsw.Connection, content: str) -> None:
    """What a hub would do that forgets what its plugins still have to do."""
    message_id = _post_without_job(connection, content)
    delete_message(_writing(connection), message_id, DeleteMessage("agent"))
    connection.execute(_JOB, (message_id,))


def _writing(connection: apsw.Connection) -> Tx:
    return Tx(connection, SystemClock().now_ms(), IdSource(queries.largest_ids(connection)))


def _jobs_in(place: Path) -> int:
    with contextlib.closing(open_reader(_database(place))) as database:
        rows: Any = database.execute("SELECT count(*) FROM jobs").fetchall()
        return rows[0][0]


def _database(place: Path) -> Path:
    return place / ".parley" / "db.sqlite3"
