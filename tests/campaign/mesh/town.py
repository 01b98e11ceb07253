"""Some daemons and a broker as real processes behind a proxy, with what they were asked and what must hold.

Who is in which mesh is written into the store and the homes before anything starts. What programs were promised is kept
in the simulator's ledger, and its judge looks at the databases, which are the real ones here.
"""

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import httpx
import psycopg
from msgspec.structs import replace

from parley.broker.options import POSTGRESQL
from parley.broker.postgresql_store import PostgresqlStore
from parley.broker.sqlite_store import open_sqlite_store
from parley.core.clock import SystemClock
from parley.core.errors import IdempotencyKeyReused
from parley.daemon.home import prepare_home
from parley.daemon.memberships import Memberships
from parley.sqlite import open_reader
from parley.wire.broker import DestinationKind
from parley.wire.daemon_home import DaemonHome
from tests.campaign.mesh.deaths import Death
from tests.campaign.mesh.processes import POLICY, Before, NodeProcess, start_broker, start_daemon
from tests.campaign.mesh.proxy import FaultProxy
from tests.simulation.checks import Judge, State
from tests.simulation.ledger import Asked, Ledger
from tests.simulation.population import Population, populate

SETTLE_SECONDS = 90.0
ANSWER_SECONDS = 30.0
LOOK_SECONDS = 0.02
LAST_LINES = 5
TO_ALL: tuple[DestinationKind, str] = ("queue", "*")
_LEFT = "SELECT mesh_id FROM outbox WHERE status IN ('pending', 'inflight')"
_OPEN = "SELECT mesh_id FROM delivery_queue WHERE state IN ('queued', 'leased')"


class Town:
    """Use as ``async with``; nothing runs before ``start``."""

    def __init__(
        self,
        folder: Path,
        store: str,
        proxy: FaultProxy,
        *,
        daemons: int,
        meshes: int,
        seed: int,
        before: Before = None,
    ) -> None:
        """``before`` is run in each process before anything else."""
        self._before = before
        self.ledger = Ledger()
        self.rng = random.Random(seed)
        self.proxy = proxy
        self.nodes: dict[str, NodeProcess] = {}
        self._folder = folder
        self._store = store
        self.names = [f"d{number}" for number in range(daemons)]
        self.people = self._settle_in(meshes)
        self._numbers = 0
        self._callers: dict[str, httpx.AsyncClient] = {}

    async def __aenter__(self) -> "Town":
        return self

    async def __aexit__(self, *_: object) -> None:
        for caller in self._callers.values():
            await caller.aclose()
        for node in self.nodes.values():
            node.kill()

    def home(self, name: str) -> DaemonHome:
        return DaemonHome(self._folder / name)

    async def start(self, name: str, death: Death | None = None, *, hasty: bool = False) -> None:
        """Starts a node, ``broker`` or a daemon, which may be set to die."""
        if name == "broker":
            node = await asyncio.to_thread(
                start_broker, self._folder / "broker", self._store, death, before=self._before
            )
            self.proxy.target = int(node.ready["port"])
        else:
            node = await asyncio.to_thread(start_daemon, self.home(name).root, death, hasty=hasty, before=self._before)
        self.nodes[name] = node

    async def start_all(self) -> None:
        for name in ("broker", *self.names):
            if name not in self.nodes or not self.nodes[name].is_alive:
                await self.start(name)

    def kill(self, name: str) -> None:
        self.nodes[name].kill()

    async def has_died(self, name: str, seconds: float) -> bool:
        return await asyncio.to_thread(self.nodes[name].wait, seconds)

    def compose(self, name: str, mesh_id: str | None = None) -> Asked:
        """A message that can be delivered, from this daemon, in this mesh or any of its own."""
        mesh_id = mesh_id or self.rng.choice(self.people.meshes_of(name))
        peers = [each for each in self.people.in_mesh(mesh_id) if each != name]
        self._numbers += 1
        to_one: tuple[DestinationKind, str] = ("dm", self.people.members[mesh_id, self.rng.choice(peers)].pubkey)
        kind, ref = self.rng.choice((to_one, TO_ALL))
        message = Asked(name, mesh_id, f"c-{self._numbers}", kind, ref, f"text {self._numbers}", "next")
        self.ledger.ask(message)
        return message

    async def ask(self, message: Asked) -> bool:
        """Asks the daemon once; whether it answered."""
        caller = self._caller(message.daemon)
        body = {
            "to": message.ref,
            "message": message.text,
            "mesh": message.mesh_id,
            "client_message_id": message.client_message_id,
        }
        try:
            response = await caller.post("/v1/send", json=body)
        except httpx.TransportError:
            return False
        if response.status_code in (200, 202):
            self.ledger.took(message, response.status_code, response.json().get("broker_message_id"))
        elif response.status_code < 500 and response.status_code != 429:
            self.ledger.refused(message, IdempotencyKeyReused(response.text))
        return message.promised

    async def ask_until_promised(self, message: Asked) -> None:
        """Asks again with the same id as long as there is no answer, starting nothing."""
        async with asyncio.timeout(SETTLE_SECONDS):
            while not await self.ask(message):  # noqa: ASYNC110 - another process
                await asyncio.sleep(LOOK_SECONDS)

    async def come_to_rest(self, mesh_id: str | None = None) -> list[str]:
        """Waits until nothing is on its way, in this mesh or any; what is, if it stays so."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while self._on_its_way(mesh_id):  # noqa: ASYNC110 - other processes
                    await asyncio.sleep(LOOK_SECONDS)
                return []
        return [f"never came to rest: {what}" for what in self._on_its_way(mesh_id)]

    def is_waiting(self, messages: list[Asked]) -> bool:
        """Whether all of these are still to be sent."""
        open_rows = {(name, row[0]) for name, rows in self.state().outbox.items() for row in rows if row[4] != "done"}
        return all((each.daemon, each.client_message_id) in open_rows for each in messages)

    def last_words(self) -> list[str]:
        """What each node logged last, and whether it lives: where to look when nothing goes on."""
        logs = {"broker": self._folder / "broker" / "broker.log"}
        logs |= {name: self.home(name).root / "daemon.log" for name in self.names}
        return [
            f"{name} is {'up' if node.is_alive else 'down'}: {logs[name].read_text().splitlines()[-LAST_LINES:]}"
            for name, node in self.nodes.items()
        ]

    def judge(self, *, at_the_end: bool) -> list[str]:
        """What is wrong in the databases."""
        judge = Judge(self.state(), self.people, self.ledger)
        return judge.in_the_end() if at_the_end else judge.always()

    def state(self) -> State:
        """What all databases hold now."""
        state = State()
        with contextlib.closing(self._open_broker()) as database:
            state.read_broker(database)
        for name in self._started():
            home = self.home(name)
            with (
                contextlib.closing(open_reader(home.outbox)) as outbox,
                contextlib.closing(open_reader(home.inbox)) as inbox,
            ):
                state.read_daemon(name, outbox, inbox)
        return state

    def _settle_in(self, meshes: int) -> Population:
        with contextlib.closing(self._open_store()) as store:
            people = populate(store, self.rng, self.names, meshes, blocks=False, missing=0)
        for name in self.names:
            home = self.home(name)
            prepare_home(home)
            memberships = Memberships(home.memberships)
            for mesh_id in people.meshes_of(name):
                membership = people.members[mesh_id, name]
                url = self.proxy.url(f"{name}.{membership.slug}")
                memberships.put(replace(membership, broker_url=url))
        return people

    def _open_store(self) -> Any:
        if self._store.startswith(POSTGRESQL):
            return PostgresqlStore(self._store, SystemClock(), POLICY)
        return open_sqlite_store(Path(self._store), SystemClock(), POLICY)

    def _open_broker(self) -> Any:
        if self._store.startswith(POSTGRESQL):
            return psycopg.connect(self._store, autocommit=True)
        return open_reader(Path(self._store))

    def _on_its_way(self, mesh_id: str | None = None) -> list[str]:
        """Looks along the way that a message goes: whatever has left an outbox is seen at the broker after it."""
        found: list[str] = []
        meshes = [mesh_id] if mesh_id else self.people.mesh_ids
        for name in self._started():
            with contextlib.closing(open_reader(self.home(name).outbox)) as outbox:
                rows = [each for each in outbox.execute(_LEFT).fetchall() if each[0] in meshes]
            found += [f"{len(rows)} rows of {name}"] if rows else []
        with contextlib.closing(self._open_broker()) as database:
            waiting = [each for each in database.execute(_OPEN).fetchall() if each[0] in meshes]
            found += [f"{len(waiting)} deliveries"] if waiting else []
        return found

    def _started(self) -> list[str]:
        """Daemons that ever ran."""
        return [name for name in self.names if name in self.nodes]

    def _caller(self, name: str) -> httpx.AsyncClient:
        if name not in self._callers:
            transport = httpx.AsyncHTTPTransport(uds=str(self.home(name).socket))
            self._callers[name] = httpx.AsyncClient(
                transport=transport, base_url="http://localhost", timeout=ANSWER_SECONDS
            )
        return self._callers[name]
