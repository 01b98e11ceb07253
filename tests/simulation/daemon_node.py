"""A simulated daemon: the product's outbox, inbox and mesh loops on a simulated disk and network."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import replace

from parley.core import sealing
from parley.core.errors import ParleyError
from parley.daemon.databases import open_inbox, open_outbox
from parley.daemon.effects import Agree, Connect, Disconnect, Effect, End, Settle, Store, Take, Tell, Transmit
from parley.daemon.inbox.events import append_event
from parley.daemon.inbox.receive import Received, receive
from parley.daemon.instant import Instant
from parley.daemon.link import LinkSettings, Member
from parley.daemon.memberships import Membership
from parley.daemon.mesh_loop import MeshLoop
from parley.daemon.outbox.accept import Destination, Message, Sealed, Taken, accept, message_fingerprint
from parley.daemon.outbox.recover import recover
from parley.daemon.outbox.requeue import requeue
from parley.daemon.outbox.rows import OutboxRow, by_client_id
from parley.daemon.outbox.sending import Due, settle, take_due
from parley.daemon.outbox.terms import read_terms, write_terms
from parley.daemon.sealer import open_sealed, seal
from parley.sqlite import Outcome
from parley.wire.broker import DeliveryAcked, Push, decode_from_broker, encode_frame
from tests.simulation.ledger import Asked
from tests.simulation.network import Listener, Network, Wire
from tests.simulation.node import AGAIN_MS, Node, SimulatedWriter
from tests.simulation.programs import Answer
from tests.simulation.scheduler import Scheduler


class Rules:
    """The rules that a daemon runs; a world with a planted bug has others."""

    accept = staticmethod(accept)
    recover = staticmethod(recover)
    requeue = staticmethod(requeue)
    take_due = staticmethod(take_due)
    settle = staticmethod(settle)
    receive = staticmethod(receive)
    open_sealed = staticmethod(open_sealed)
    new_loop = MeshLoop
    acknowledges_before_commit = False
    insists = True
    """What became of a message is written again until it is on disk."""


@dataclass
class _Mesh:
    """One mesh of the daemon: its machine, its connection, and when its timer goes next."""

    of: Membership
    loop: MeshLoop
    wire: Wire | None = None
    timer_at: float = math.inf


class DaemonNode(Node):
    """One daemon with all its meshes."""

    def __init__(self, name: str, scheduler: Scheduler, network: Network, folder: Path, rules: type[Rules]) -> None:
        super().__init__(name, scheduler, network, folder)
        self.memberships: list[Membership] = []
        self.replaced_seeds: dict[str, list[bytes]] = {}
        """Keys that members had before, by mesh."""
        self.received = 0
        self.ended: list[tuple[str, str]] = []
        """Meshes that were given up for good, and why."""
        self._rules = rules
        self._numbers = 0
        self._meshes: dict[str, _Mesh] = {}

    @property
    def databases(self) -> tuple[apsw.Connection, apsw.Connection]:
        return self._outbox_db, self._inbox_db

    def start(self) -> None:
        self.begin()
        with self.dying_of_a_cut():
            now_ms = self.clock.now_ms()
            self._outbox_db = open_outbox(self.folder / f"{self.name}-outbox.db", now_ms=now_ms, vfs=self.disk.name)
            opened = open_inbox(self.folder / f"{self.name}-inbox.db", now_ms=now_ms, vfs=self.disk.name)
            if opened.set_aside is not None:
                self.ended.append(("", "the inbox was damaged"))
            self._inbox_db = opened.connection
            self._outbox = SimulatedWriter(self, self._outbox_db, self.rng)
            self._inbox = SimulatedWriter(self, self._inbox_db, self.rng)
            self._outbox.insist(lambda db: self._rules.recover(db, now_ms=now_ms), lambda _: self._connect_all())

    def let_go(self) -> list[apsw.Connection]:
        for mesh in self._meshes.values():
            if mesh.wire is not None:
                self.leave(mesh.wire, "daemon")
        self._meshes.clear()
        return [each for each in (getattr(self, "_outbox_db", None), getattr(self, "_inbox_db", None)) if each]

    def ask(self, message: Asked, answer: Answer) -> None:
        """A program asks for a message to be sent."""
        wanted, of = self._message(message), self._membership(message.mesh_id)
        fingerprint, sealed = message_fingerprint(wanted), seal(wanted, of, self.rng.randbytes)
        row_id, now_ms = self._new_id(), self.clock.now_ms()

        mesh = self._meshes.get(message.mesh_id)
        in_flight = mesh is not None and mesh.loop.admit(self._now())

        def done(outcome: Outcome[Any]) -> None:
            answer(_value(outcome, outcome.error))
            if mesh is not None and in_flight:
                taken: Taken | None = _value(outcome, None)
                row = taken.row if taken is not None and taken.is_new else None
                self._do(mesh, mesh.loop.on_admitted(row, self._now()))
            if not in_flight or self._meshes.get(message.mesh_id) is not mesh:
                self._wake(message.mesh_id)

        ids = {"row_id": row_id, "now_ms": now_ms, "in_flight": in_flight}
        self._outbox.submit(lambda db: self._rules.accept(db, wanted, fingerprint, sealed, **ids), done)

    def requeue(self, message: Asked, successor: Asked, *, force: bool) -> None:
        """An operator sends a message anew under another id."""
        new_id, now_ms = self._new_id(), self.clock.now_ms()

        def write(db: apsw.Connection) -> OutboxRow:
            row = by_client_id(db, message.client_message_id)
            assert row is not None
            again = self._message(successor)
            sealed = Sealed(row.sender_identity, row.sealed, row.key_epoch, row.wire_fingerprint)
            fingerprint = row.request_fingerprint
            return self._rules.requeue(
                db, row.id, again, fingerprint, sealed, new_id=new_id, by="operator", force=force, now_ms=now_ms
            )

        def done(outcome: Outcome[Any]) -> None:
            successor.promised = outcome.error is None
            self._wake(message.mesh_id)

        self._outbox.submit(write, done)

    def seeds(self, of: Membership) -> list[bytes]:
        """All keys of a member, the current one first."""
        return [self._membership(of.mesh_id).seed_bytes, *reversed(self.replaced_seeds.get(of.mesh_id, []))]

    def take_key(self, mesh_id: str, seed: bytes) -> None:
        """The member has a new key; what is bound to the old one can still be read."""
        old = self._membership(mesh_id)
        self.replaced_seeds.setdefault(mesh_id, []).append(old.seed_bytes)
        new = replace(old, seed=seed.hex())
        self.memberships = [new if each is old else each for each in self.memberships]
        mesh = self._meshes.pop(mesh_id, None)
        if mesh is not None:
            self._do(mesh, mesh.loop.stop(self._now()))
            self._connect(new)

    def _connect_all(self) -> None:
        for of in self.memberships:
            self._connect(of)

    def _connect(self, of: Membership) -> None:
        member = Member(
            mesh_id=of.mesh_id,
            mesh_slug=of.slug,
            member_id=of.member_id,
            pubkey=of.pubkey,
            instance_id=f"{self.name}-{self.lives}",
            host_fingerprint="",
            daemon_version="",
            sign=lambda data, of=of: sealing.sign(of.seed_bytes, data),
        )
        mesh = _Mesh(of, self._rules.new_loop(member, LinkSettings(), self.rng.random))
        self._meshes[of.mesh_id] = mesh
        self._do(mesh, mesh.loop.start(self._now()))

    def _wake(self, mesh_id: str) -> None:
        mesh = self._meshes.get(mesh_id)
        if mesh is not None:
            self._do(mesh, mesh.loop.wake(self._now()))

    def _do(self, mesh: _Mesh, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Transmit():
                    if mesh.wire is not None:
                        mesh.wire.send("daemon", encode_frame(effect.frame))
                case Take():
                    self._take(mesh, effect.limit)
                case Settle():
                    self._settle(effect)
                case Store():
                    self._store(mesh, effect.pushes)
                case Connect():
                    self._dial(mesh)
                case Disconnect():
                    if mesh.wire is not None:
                        mesh.wire.close("daemon", effect.code, effect.reason)
                        mesh.wire = None
                case Agree():
                    self._agree(mesh, effect)
                case Tell():
                    self._tell(mesh, effect)
                case End():
                    self.ended.append((mesh.of.mesh_id, str(effect.error)))
                case _:
                    pass  # answers and notices, which nobody here asked for
        self._set_timer(mesh)

    def _take(self, mesh: _Mesh, limit: int) -> None:
        mesh_id = mesh.of.mesh_id

        def write(db: apsw.Connection) -> Any:
            terms = read_terms(db, mesh_id)
            now_ms = self.clock.now_ms()
            return self._rules.take_due(db, mesh_id, now_ms=now_ms, limit=limit, max_age_ms=terms.max_age_ms)

        def done(outcome: Outcome[Any]) -> None:
            again = Due([], self.clock.now_ms() + AGAIN_MS, [])
            self._do(mesh, mesh.loop.on_taken(_value(outcome, again), self._now()))

        self._outbox.submit(write, done)

    def _settle(self, effect: Settle) -> None:
        now_ms = self.clock.now_ms()
        for settlement in effect.settlements:
            write = self._outbox.insist if self._rules.insists else self._outbox.submit
            write(lambda db, settlement=settlement: self._rules.settle(db, settlement, now_ms=now_ms), _ignore)

    def _store(self, mesh: _Mesh, pushes: tuple[Push, ...]) -> None:
        of = mesh.of
        for push in pushes:
            row_id, now_ms = self._new_id(), self.clock.now_ms()

            def done(outcome: Outcome[Any]) -> None:
                received: Received | None = _value(outcome, None)
                self.received += received is not None and received.event is not None
                if received is not None and not self._rules.acknowledges_before_commit:
                    stored = DeliveryAcked(received.delivery_id, received.status)
                    self._do(mesh, mesh.loop.on_stored([stored], self._now()))

            self._inbox.submit(
                lambda db, push=push, row_id=row_id, now_ms=now_ms: self._rules.receive(
                    db,
                    push,
                    lambda sealed: self._rules.open_sealed(sealed, of, self.seeds(of)),
                    mesh_id=of.mesh_id,
                    recipient_id=of.member_id,
                    row_id=row_id,
                    now_ms=now_ms,
                ),
                done,
            )
            if self._rules.acknowledges_before_commit:
                self._do(mesh, mesh.loop.on_stored([DeliveryAcked(push.delivery_id)], self._now()))

    def _agree(self, mesh: _Mesh, effect: Agree) -> None:
        now_ms, mesh_id = self.clock.now_ms(), mesh.of.mesh_id
        self._outbox.submit(lambda db: write_terms(db, mesh_id, effect.terms, now_ms=now_ms), _ignore)

    def _tell(self, mesh: _Mesh, effect: Tell) -> None:
        now_ms, mesh_id = self.clock.now_ms(), mesh.of.mesh_id
        self._inbox.submit(
            lambda db: append_event(db, effect.kind, effect.data, now_ms=now_ms, mesh_id=mesh_id), _ignore
        )

    def _dial(self, mesh: _Mesh) -> None:
        wire = self.network.connect(self.name, Listener(lambda _: None, lambda *_: None))
        mesh.wire = wire
        life = self.lives

        def is_current() -> bool:
            return self.is_up and self.lives == life and mesh.wire is wire

        def hear(act: Callable[[], list[Effect]]) -> None:
            if self.is_frozen:
                self.thaw(lambda: hear(act))
            elif is_current():
                with self.dying_of_a_cut():
                    self._do(mesh, act())

        def closed(code: int | None, reason: str) -> None:
            if self.is_frozen:
                self.thaw(lambda: closed(code, reason))
            elif is_current():
                mesh.wire = None
                with self.dying_of_a_cut():
                    self._do(mesh, mesh.loop.on_closed(code, reason, self._now()))

        wire.listen(
            "daemon",
            Listener(
                on_data=lambda data: hear(lambda: mesh.loop.on_frame(decode_from_broker(data), self._now())),
                on_closed=closed,
                on_connected=lambda: hear(lambda: mesh.loop.on_connected(self._now())),
            ),
        )
        wire.dial()

    def _set_timer(self, mesh: _Mesh) -> None:
        deadline = mesh.loop.deadline
        if deadline is None or deadline >= mesh.timer_at:
            return
        mesh.timer_at = deadline

        def fire() -> None:
            if self._meshes.get(mesh.of.mesh_id) is not mesh or mesh.timer_at != deadline:
                return
            mesh.timer_at = math.inf
            self._do(mesh, mesh.loop.on_timer(self._now()))

        self.later(math.ceil((deadline - self.clock.monotonic()) * 1000), fire)

    def _now(self) -> Instant:
        return Instant(self.clock.now_ms(), self.clock.monotonic())

    def _new_id(self) -> str:
        self._numbers += 1
        return f"{self.name}-{self._numbers}"

    def _membership(self, mesh_id: str) -> Membership:
        return next(of for of in self.memberships if of.mesh_id == mesh_id)

    def _message(self, asked: Asked) -> Message:
        destination = Destination(asked.mesh_id, asked.ref, asked.kind, asked.ref)
        return Message(asked.client_message_id, destination, asked.text.encode(), asked.priority)


def _value(outcome: Outcome[Any], otherwise: Any) -> Any:
    """What a write came to, or the other thing when the disk was full. Nothing else may go wrong."""
    if outcome.error is None:
        return outcome.value
    if not (isinstance(outcome.error, ParleyError)):
        raise outcome.error
    return otherwise


def _ignore(outcome: Outcome[Any]) -> None:
    _value(outcome, None)
