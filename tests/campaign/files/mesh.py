"""Two daemons and a broker under load, of which one file is struck.

Three promises are looked at: what a program was told is taken is in the outbox; what a broker accepted is in its file;
what a daemon acknowledged to the broker is in its inbox. A file that was destroyed excuses what was promised before,
and nothing that was asked for afterwards.
"""

import asyncio
import contextlib
import random
import time
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from bench.load.process import NotReady
from parley.core.errors import ParleyError
from parley.core.exits import Exit
from parley.sqlite import open_reader
from tests.campaign.files.hub import MOMENT_SECONDS, until
from tests.campaign.files.strike import Act, Strike, before, give_away, hit, strike
from tests.campaign.mesh.proxy import FaultProxy
from tests.campaign.mesh.town import Town

DAEMONS = 2
PROGRAMS = 2
ASKED_BEFORE = 20
ASKED_AFTER = 20
FILE = "broker.db"
_TAKEN = "SELECT client_message_id, status, broker_message_id FROM outbox"
_ACCEPTED = "SELECT broker_message_id FROM client_message_dedupe"
_DELIVERED = (
    "SELECT d.client_message_id, d.broker_message_id, q.recipient_id FROM delivery_queue AS q"
    " JOIN client_message_dedupe AS d ON d.broker_message_id = q.broker_message_id WHERE q.state = 'delivered'"
)
_RECEIVED = "SELECT broker_message_id, recipient_id FROM inbox"


class Files(NamedTuple):
    """Where a town keeps its promises."""

    place: Path

    @property
    def broker(self) -> Path:
        return self.place / FILE

    def outbox(self, name: str) -> Path:
        return self.place / name / "outbox.db"

    def inbox(self, name: str) -> Path:
        return self.place / name / "inbox.db"


class Programs:
    """Ask the daemons for one message after the other; when each was asked for."""

    def __init__(self, town: Town) -> None:
        self.asked: dict[str, float] = {}
        self.stopping = False
        self._town = town

    def since(self, moment: float) -> int:
        """How many were promised that were asked for after the moment."""
        return sum(self.asked[each.client_message_id] > moment for each in self.promised())

    def promised(self) -> list[Any]:
        return [each for name in self._town.names for each in self._town.ledger.of(name) if each.promised]

    async def run(self, name: str) -> None:
        while not self.stopping:
            message = self._town.compose(name)
            self.asked[message.client_message_id] = time.monotonic()
            if not await self._town.ask(message):
                await asyncio.sleep(0.02)


async def mesh_round(
    place: Path, rng: random.Random, *, blind: bool = False, act: Act | None = None
) -> tuple[Strike, list[str]]:
    """One town, one strike; what is wrong. With an ``act`` the outbox of a daemon is the victim."""
    async with (
        FaultProxy(rng.randrange(2**32)) as proxy,
        Town(
            place,
            str(place / FILE),
            proxy,
            daemons=DAEMONS,
            meshes=1,
            seed=rng.randrange(2**32),
            before=before(place, blind=blind),
        ) as town,
    ):
        give_away(place)
        await town.start_all()
        programs = Programs(town)
        asking = [asyncio.create_task(programs.run(name)) for name in town.names for _ in range(PROGRAMS)]
        try:
            await until(lambda: len(programs.promised()) >= ASKED_BEFORE)
            await asyncio.sleep(rng.uniform(0, MOMENT_SECONDS))
            node = rng.choice(("broker", rng.choice(town.names))) if act is None else town.names[0]
            done = strike(place, rng, node) if act is None else hit(Files(place).outbox(node), act, rng)
            moment = time.monotonic()
            struck, goes_on = town.nodes[node], blind or not done.must_end
            stuck = not await until(lambda: not struck.is_alive or (goes_on and programs.since(moment) >= ASKED_AFTER))
            by_itself = not struck.is_alive
        finally:
            programs.stopping = True
            await asyncio.gather(*asking)
        codes = {name: await asyncio.to_thread(_stop, town, name) for name in ("broker", *town.names)}
        problems = [f"{name} ended with {code}" for name, code in codes.items() if name != node and code != Exit.OK]
        problems += done.end_problems(codes[node], by_itself=by_itself, stuck=stuck)
        if done.destroys:
            return done, problems + _broken_promises(town, Files(place), programs, done, moment)
        done.heal()
        problems += _broken_promises(town, Files(place), programs, done, moment)
        try:
            await town.start_all()
        except NotReady as error:
            return done, [*problems, f"it does not start again: {error}"]
        problems += await town.come_to_rest()
        return done, problems + town.judge(at_the_end=True)


def _stop(town: Town, name: str) -> int:
    node = town.nodes[name]
    return node.stop() if node.is_alive else int(node.exit_code or 0)


def _broken_promises(town: Town, files: Files, programs: Programs, done: Strike, moment: float) -> list[str]:
    """What was promised and is not there, unless the file that held it was destroyed after the promise."""

    def excused(path: Path, client_message_id: str) -> bool:
        """Whether the file was destroyed, and the message asked for before that."""
        ours = done.destroys and done.path.name.startswith(path.name) and done.path.parent == path.parent
        return ours and programs.asked.get(client_message_id, 0.0) <= moment

    problems: list[str] = []
    accepted = {row[0] for row in _rows(files.broker, _ACCEPTED)}
    names = {each.member_id: name for (_, name), each in town.people.members.items()}
    for name in town.names:
        rows = {row[0]: row for row in _rows(files.outbox(name), _TAKEN)}
        lost = [each for each in town.ledger.of(name) if each.promised and each.client_message_id not in rows]
        problems += [
            f"{each.client_message_id} was taken by {name} and is lost"
            for each in lost
            if not excused(files.outbox(name), each.client_message_id)
        ]
        problems += [
            f"{client_id} of {name} was accepted and is lost"
            for client_id, status, broker_id in rows.values()
            if status == "done" and broker_id not in accepted and not excused(files.broker, client_id)
        ]
    received = {name: set(_rows(files.inbox(name), _RECEIVED)) for name in town.names}
    for client_id, broker_id, recipient in _rows(files.broker, _DELIVERED):
        name = names[recipient]
        if (broker_id, recipient) not in received[name] and not excused(files.inbox(name), client_id):
            problems.append(f"{client_id} was delivered to {name} and is lost")
    return problems


def _rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.suppress(ParleyError, apsw.Error), contextlib.closing(open_reader(path)) as reader:
        return reader.execute(sql).fetchall()
    return []
