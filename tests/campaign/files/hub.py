"""A hub under load, of which one file is struck."""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import apsw

from bench.load.http import HttpPeer, json_body, status
from bench.load.hub import Hub
from bench.load.process import NotReady
from parley.core.errors import ParleyError
from parley.core.exits import Exit
from parley.sqlite import checkpoint_once, open_reader, open_writer
from parley.workspace.layout import Workspace
from tests.campaign.files.strike import Act, Strike, before, give_away, hit, strike
from tests.campaign.forked import ForkedHub, ForkedStart

CONNECTIONS = 4
ACKS_BEFORE = 40
ACKS_AFTER = 40
MOMENT_SECONDS = 0.05
DEADLINE_SECONDS = 60.0
LOOK_SECONDS = 0.005
CONFIG = "[trouble]\ndisk_free_bytes_min = 0\n\n[checkpoint]\nwal_bytes = 1048576\n"
SAID = frozenset({"FILES_LOST", "SHUTTING_DOWN", "SERVICE_UNAVAILABLE", "DATABASE_CORRUPT", "INTERNAL_ERROR"})


class Load:
    """Posts from several connections until the hub goes away; when each was sent that was acknowledged."""

    def __init__(self, hub: Hub, topic: str, seed: int) -> None:
        self.sent: dict[str, float] = {}
        self.refused: Counter[str] = Counter()
        self._hub, self._topic = hub, topic
        self._rng = random.Random(seed)
        self._number = 0

    def since(self, moment: float) -> int:
        """How many were acknowledged that were sent after the moment."""
        return sum(sent > moment for sent in self.sent.values())

    async def run(self) -> None:
        peers = await self._hub.connect(CONNECTIONS)
        try:
            await asyncio.gather(*(self._post(peer) for peer in peers))
        finally:
            for peer in peers:
                peer.close()

    async def _post(self, peer: HttpPeer) -> None:
        while True:
            self._number += 1
            key = f"k{self._number} {'y' * self._rng.randrange(3_000)}"
            body = {"topic_id": self._topic, "sender": "ann", "content_raw": key}
            moment = time.monotonic()
            try:
                reply = await peer.call(self._hub.request("POST", "/api/v1/messages", body))
            except (ConnectionError, EOFError):
                return
            if status(reply) == 201:
                self.sent[key] = moment
            else:
                self.refused[json_body(reply).get("code", str(status(reply)))] += 1


async def hub_round(
    place: Path, rng: random.Random, *, blind: bool = False, act: Act | None = None
) -> tuple[Strike, list[str]]:
    """One hub, one strike; what is wrong. With an ``act`` its database is the victim."""
    hub = Hub(place, config=CONFIG, launch=lambda folder: _launch(folder, blind))
    assert isinstance(hub.process, ForkedHub)
    process = hub.process
    (topic,) = await hub.make_topics("campaign", "one")
    load = Load(hub, topic, rng.randrange(2**32))
    loading = asyncio.create_task(load.run())
    try:
        await until(lambda: len(load.sent) >= ACKS_BEFORE)
        in_database = _move_log(hub.database, load)
        await asyncio.sleep(rng.uniform(0, MOMENT_SECONDS))
        done = strike(place / ".parley", rng) if act is None else hit(hub.database, act, rng)
        moment = time.monotonic()
        stuck = not await until(
            lambda: process.exit_code is not None or ((blind or not done.must_end) and load.since(moment) >= ACKS_AFTER)
        )
        by_itself = process.exit_code is not None
    finally:
        code = process.exit_code if process.exit_code is not None else process.stop()
        await loading
    problems = [f"refused with {name}" for name in load.refused if name not in SAID]
    problems += done.end_problems(code, by_itself=by_itself, stuck=stuck)
    problems += _judge(place, load, done, moment, in_database)
    return done, problems


def _move_log(database: Path, load: Load) -> set[str]:
    """Has the log moved into the database; the posts that are there now for certain."""
    acknowledged = set(load.sent)
    connection = open_writer(database)
    try:
        result = checkpoint_once(connection, "passive")
    finally:
        connection.close()
    return acknowledged if result.complete else set()


def _judge(place: Path, load: Load, done: Strike, moment: float, in_database: set[str]) -> list[str]:
    database = place / ".parley" / "db.sqlite3"
    if done.destroys:
        lost = _lost(database, load)
        problems: list[str] = []
        if after := [key for key in lost if load.sent[key] > moment]:
            problems.append(f"{len(after)} posts were sent after it, acknowledged and lost")
        if done.kind == "log" and (sound := in_database.intersection(lost)):
            problems.append(f"{len(sound)} posts are lost that were in the database")
        return problems
    problems = []
    if done.act == "read_only" and done.path.exists() and done.path in Workspace(place, place / ".parley").written:
        refused = ForkedStart(place, before=before(place))
        refused.outcome()
        if refused.exit_code != Exit.WORKSPACE_UNSAFE:
            problems.append(f"a start beside it ended with {refused.exit_code}")
        refused.kill()
    done.heal()
    problems += [f"{len(lost)} acknowledged posts are lost"] if (lost := _lost(database, load)) else []
    try:
        again = ForkedHub(place, before=before(place))
    except NotReady as error:
        return [*problems, f"it does not start again: {error}"]
    code = again.stop()
    if code != Exit.OK:
        problems.append(f"its next life ended with {code}")
    return problems + ([f"{len(lost)} acknowledged posts are lost later"] if (lost := _lost(database, load)) else [])


def _lost(database: Path, load: Load) -> list[str]:
    """The acknowledged posts that cannot be found."""
    kept: set[str] = set()
    with contextlib.suppress(ParleyError, apsw.Error), contextlib.closing(open_reader(database)) as reader:
        kept = {str(row[0]) for row in reader.execute("SELECT content_raw FROM messages")}
    return [key for key in load.sent if key not in kept]


def _launch(folder: Path, blind: bool) -> ForkedHub:
    give_away(folder)
    return ForkedHub(folder, before=before(folder, blind=blind))


async def until(condition: Callable[[], bool]) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True
