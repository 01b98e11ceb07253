"""A running daemon: the meshes of one user, what is sent, and what arrives. The local API is a shell around it."""

import asyncio
import random
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from parley import __version__
from parley.core import untrusted_json
from parley.core.clock import Clock
from parley.core.daemon_errors import (
    DestinationUnknown,
    IdempotencyKeyConflict,
    InsufficientStorage,
    MeshNotAttached,
    MeshRequired,
    MeshUnreachable,
    NoMeshJoined,
    RowNotFound,
)
from parley.core.daemon_metrics import DAEMON_METRICS
from parley.core.daemon_settings import DaemonSettings
from parley.core.errors import FilesLost, InvalidInput, LocalError, ParleyError, PayloadTooLarge, ServiceUnavailable
from parley.core.ids import new_uuid
from parley.daemon.broker_mesh import BrokerMesh
from parley.daemon.capacity import PRESSURE, Capacity
from parley.daemon.config import load_daemon_settings
from parley.daemon.feed import Feed
from parley.daemon.hooks.config import load_hooks
from parley.daemon.hooks.gate import SendGate
from parley.daemon.hooks.runner import HookRunner
from parley.daemon.inbox.events import DaemonEvent, EventKind, append_event
from parley.daemon.inbox.reading import message as inbox_message
from parley.daemon.key_archive import KeyArchive
from parley.daemon.link import HELLO_REFUSED
from parley.daemon.memberships import Membership, Memberships
from parley.daemon.mesh import Mesh
from parley.daemon.outbox.accept import (
    UNSEALED,
    Destination,
    Message,
    Sealed,
    Taken,
    accept,
    message_fingerprint,
    recognise,
    settle_destination,
)
from parley.daemon.outbox.requeue import requeue
from parley.daemon.outbox.rows import OutboxRow, by_client_id, find
from parley.daemon.roster import Roster, resolve
from parley.daemon.rosters.mesh import RosterMesh
from parley.daemon.rosters.messages import sealed_size
from parley.daemon.rosters.rows import forget_roster
from parley.daemon.sealer import check_meta, seal
from parley.daemon.sessions import MARK, Session, Sessions, addressed, signed, unsigned
from parley.daemon.store import IN, OUT, DaemonStore
from parley.daemon.tally import Tally
from parley.serve import DiskWatch
from parley.serve.metrics import Metrics
from parley.wire.broker import Priority
from parley.wire.daemon_home import DaemonHome

UPKEEP_SECONDS: Final = 60.0


class Asked(msgspec.Struct, frozen=True):
    """A message as a caller asks for it to be sent, once its form has been checked."""

    to: str
    message: str
    priority: Priority = "next"
    meta: dict[str, Any] = {}
    reply_to_id: str | None = None
    mentions: list[str] = []
    mesh: str | None = None
    client_message_id: str | None = None
    to_session: str | None = None
    session: Session | None = None
    """Who asks."""


class Daemon:
    """Made on the running loop; ``start`` connects, ``stop`` ends everything."""

    def __init__(
        self,
        home: DaemonHome,
        settings: DaemonSettings,
        *,
        clock: Clock,
        log: FilteringBoundLogger,
        host_fingerprint: str,
        instance_id: str,
    ) -> None:
        """Raises ``DatabaseCorrupt`` for a damaged outbox, and what reading the other files raises."""
        self.home = home
        self.settings = settings
        self.at_start = load_daemon_settings(home.config)
        """What the file said when the daemon started, without what the start itself decided."""
        self.on_settings: Callable[[DaemonSettings], None] = lambda settings: None
        self.clock = clock
        self.log = log
        self.instance_id = instance_id
        self.started_at = clock.monotonic()
        self.memberships = Memberships(home.memberships)
        self.memberships.load()
        self.archive = KeyArchive(home.key_archive)
        aside = self.archive.load(clock.now_ms())
        if aside is not None:
            log.warning("key_archive_malformed", put_aside=str(aside))
        self.sessions = Sessions(home.sessions)
        self.sessions.load()
        self.feed = Feed(settings.ipc.streams_max, settings.ipc.stream_queue_max)
        self.tally = Tally()
        self.metrics = Metrics(clock, DAEMON_METRICS)
        self.store = DaemonStore(home, clock, self._files_lost)
        self.capacity = Capacity(self.store, clock, settings)
        hooks = load_hooks(home.hooks)
        self.hooks = HookRunner(self, hooks)
        self.gate = SendGate(self, hooks)
        self.ephemeral = False
        """Whether its keys end with it."""
        self.port: int | None = None
        """Where it listens beside its socket, if it does."""
        self.meshes: dict[str, Mesh] = {}
        self.ended = asyncio.Event()
        """Set when every mesh is over for good, or the files are lost; ``refusal`` or ``lost`` tells why."""
        self.lost: FilesLost | None = None
        self._host_fingerprint = host_fingerprint
        self._upkeep: asyncio.Task[None] | None = None
        self._outbox_pressed, self._inbox_level = False, 0
        """What was told last of how full they are."""
        self.disk = DiskWatch(home.root, settings.trouble.disk_free_bytes_min)

    @property
    def refusal(self) -> LocalError | None:
        """Why the last mesh ended, if all have."""
        ends = [mesh.runner.ended for mesh in self.meshes.values()]
        return ends[-1] if ends and all(ends) else None

    def lose_files(self, lost: FilesLost) -> None:
        """Acknowledges nothing any more, to programs or to brokers, and ends."""
        self.store.give_up(lost)

    async def start(self) -> None:
        """Connects to every mesh."""
        if self.store.recovered:
            self.log.info("outbox_recovered", rows=self.store.recovered)
        if self.store.renewed:
            self.log.warning("inbox_corruption_recovered", put_aside=str(self.store.set_aside or ""))
        self.hooks.find_place()
        for membership in self.memberships.all():
            self.attach(membership)  # before anything is awaited: a request that comes meanwhile must find its mesh
        await self.hooks.start()
        self._upkeep = asyncio.create_task(self._keep_up())

    async def stop(self) -> bool:
        """Ends the connections, then the databases. False if a writer did not end in time."""
        if self._upkeep is not None:
            self._upkeep.cancel()
        await asyncio.gather(*(mesh.stop() for mesh in self.meshes.values()))
        await self.hooks.stop()
        self.feed.close()
        return await self.store.close(timeout=10)

    async def tried(self, seconds: float) -> None:
        """Waits until it is known of each mesh how the first try to connect went, for so long at most."""
        await asyncio.gather(*(mesh.tried(seconds) for mesh in self.meshes.values()))

    def attach(self, membership: Membership) -> Mesh:
        """Serves one more mesh."""
        kind = RosterMesh if membership.fingerprint else BrokerMesh
        mesh = kind(
            membership,
            self.memberships,
            self.archive,
            self.settings,
            home=self.home,
            instance_id=self.instance_id,
            host_fingerprint=self._host_fingerprint,
            version=__version__,
            store=self.store,
            clock=self.clock,
            jitter=random.random,
            log=self.log,
            tally=self.tally,
            on_events=self._on_events,
            on_end=self._on_end,
        )
        self.meshes[membership.mesh_id] = mesh
        mesh.start()
        return mesh

    async def detach(self, mesh_id: str) -> None:
        """Serves a mesh no longer; what was in its outbox stays."""
        mesh = self.meshes.pop(mesh_id, None)
        if mesh is not None:
            await mesh.stop()

    async def forget(self, mesh: Mesh) -> None:
        """Is a member no longer, as far as this machine knows. What arrived stays."""
        mesh.leaving = True
        self.memberships.remove(mesh.mesh_id)
        await self.detach(mesh.mesh_id)
        await self.store.write_outbox(lambda db: forget_roster(db, mesh.mesh_id))

    def apply(self, settings: DaemonSettings) -> None:
        """Goes on with other settings."""
        self.settings = settings
        self.capacity.settings = settings
        self.disk.least_bytes = settings.trouble.disk_free_bytes_min
        self.feed.limit(settings.ipc.streams_max, settings.ipc.stream_queue_max)
        for mesh in self.meshes.values():
            mesh.tune(settings)
        self.on_settings(settings)

    async def match_memberships(self) -> tuple[list[str], list[str]]:
        """New memberships are served, removed ones no longer; both are named. Others keep their connection."""
        wanted = {each.mesh_id: each for each in self.memberships.all()}
        gone = [name for name in self.meshes if name not in wanted]
        new = [name for name in wanted if name not in self.meshes]
        for name in gone:
            await self.detach(name)
        for name in new:
            self.attach(wanted[name])
        return [wanted[name].slug for name in new], gone

    def mesh(self, name: str | None) -> Mesh:
        """The mesh with this id or slug, or the only one. Raises ``MeshNotAttached`` or ``MeshRequired``."""
        if name is not None:
            return self.meshes[self.memberships.get(name).mesh_id]
        if len(self.meshes) != 1:
            raise MeshRequired("Which mesh is meant?", attached=[mesh.slug for mesh in self.meshes.values()])
        return next(iter(self.meshes.values()))

    async def send(self, asked: Asked, key: str | None = None) -> Taken:
        """Takes a message to be sent: its row is on disk when this returns. Raises what the accept table refuses."""
        if key is not None and asked.client_message_id not in (None, key):
            raise IdempotencyKeyConflict("Idempotency-Key and client_message_id differ")
        if MARK in asked.meta:
            raise InvalidInput(f"{MARK} is told by the daemon itself", field="meta")
        client_id = key or asked.client_message_id or new_uuid()
        mesh_id = None if asked.mesh is None else self.memberships.get(asked.mesh).mesh_id
        row = self.store.read_outbox(lambda db: by_client_id(db, client_id))
        if (
            row is None
            and not asked.to.startswith(("#", "@", "*"))
            and any(mesh.roster_stale for mesh in self._possible(mesh_id))
        ):
            await self._read_rosters(mesh_id)
        try:
            destination = settle_destination(row, asked.to, mesh_id, lambda: self._resolve(asked.to, mesh_id))
        except (DestinationUnknown, MeshUnreachable):
            await self._read_rosters(mesh_id)  # somebody may have joined just now
            destination = self._resolve(asked.to, mesh_id)
        message = Message(
            client_id,
            destination,
            asked.message.encode(),
            asked.priority,
            self._answered(asked.reply_to_id, row),
            addressed(asked.meta, asked.to_session),
            asked.mentions,
        )
        fingerprint = message_fingerprint(message)
        if row is not None:
            return recognise(row, destination.mesh_id, fingerprint)
        mesh = self.meshes.get(destination.mesh_id)
        ended = None if mesh is None else mesh.membership.ended
        if ended is not None and ended.removed:
            raise MeshNotAttached(ended.error, mesh=destination.mesh_id)
        self.capacity.refuse_when_full(len(message.payload))
        # Who sends it is not part of what is asked: the same session may come back under another name.
        message = await self.gate.check(replace(message, meta=signed(message.meta, asked.session)))
        sealed = self._sealed(message)
        row_id, now_ms = self.store.new_id(OUT), self.clock.now_ms()
        seal_now = None if mesh is None else mesh.seal

        def submit(in_flight: bool) -> "asyncio.Future[Taken]":
            rule = partial(accept, row_id=row_id, now_ms=now_ms, in_flight=in_flight, seal=seal_now)
            return self.store.write_outbox(lambda db: rule(db, message, fingerprint, sealed))

        try:
            written = submit(False) if mesh is None else mesh.runner.post(submit)
            return await asyncio.shield(written)  # a caller that goes away takes no row with it
        except ServiceUnavailable as error:
            if error.details.get("reason") != "disk_full":
                raise
            raise InsufficientStorage("The disk is full", reason="disk_full") from error

    async def requeue(
        self, name: str, *, new_client_id: str | None, patched: str | None, force: bool, by: str = "operator"
    ) -> tuple[OutboxRow, OutboxRow]:
        """Sends a row's message anew under another id; the old row and the new one.

        The fingerprint is what was asked for, so it stays the same unless the text is patched.
        """
        old = self.store.read_outbox(lambda db: find(db, name))
        payload = old.payload if patched is None else patched.encode()
        meta = _meta_of(old)
        mentions: list[str] = msgspec.json.decode(old.mentions)
        destination = Destination(old.mesh_id, old.to_spec, old.destination_kind, old.destination_ref)
        client_id = new_client_id or new_uuid()
        message = Message(client_id, destination, payload, old.priority, old.reply_to_id, meta, mentions)
        fingerprint = old.request_fingerprint
        if patched is not None:
            fingerprint = message_fingerprint(replace(message, meta=unsigned(meta)))
        membership = self.memberships.get(old.mesh_id)
        if patched is None and not membership.fingerprint and old.sender_identity == membership.pubkey:
            sealed = Sealed(old.sender_identity, old.sealed, old.key_epoch, old.wire_fingerprint)
        else:
            message = await self.gate.check(message)
            sealed = self._sealed(message)
        row_id, now_ms = self.store.new_id(OUT), self.clock.now_ms()
        new = await self.store.write_outbox(
            lambda db: requeue(
                db, old.id, message, fingerprint, sealed, new_id=row_id, by=by, force=force, now_ms=now_ms
            )
        )
        mesh = self.meshes.get(new.mesh_id)
        if mesh is not None:
            mesh.runner.wake()
        return old, new

    def rosters(self, mesh_id: str | None = None) -> list[Roster]:
        """What is known of who is in the meshes."""
        return [mesh.roster for mesh in self._possible(mesh_id)]

    def _possible(self, mesh_id: str | None) -> list[Mesh]:
        """The mesh that is meant, or all."""
        if mesh_id is None:
            return list(self.meshes.values())
        mesh = self.meshes.get(mesh_id)
        return [] if mesh is None else [mesh]

    async def _read_rosters(self, mesh_id: str | None) -> None:
        """Asks the brokers that can be reached who is there. What goes wrong is told by looking the name up again."""
        asked = (mesh.read_roster() for mesh in self._possible(mesh_id) if mesh.runner.machine.ready)
        await asyncio.gather(*asked, return_exceptions=True)

    def _answered(self, reply_to_id: str | None, row: OutboxRow | None) -> str | None:
        """The broker's id of the message that is answered, which may be named by its id here."""
        if reply_to_id is None or not reply_to_id.startswith(IN):
            return reply_to_id
        try:
            return self.store.read_inbox(lambda db: inbox_message(db, reply_to_id)).broker_message_id
        except RowNotFound:
            if row is None:
                raise
            return row.reply_to_id  # it was thrown away since

    def _resolve(self, to: str, mesh_id: str | None) -> Destination:
        if not self.meshes:
            raise NoMeshJoined("No mesh is joined yet")
        return resolve(to, self.rosters(mesh_id))

    def _sealed(self, message: Message) -> Sealed:
        membership = self.memberships.get(message.destination.mesh_id)
        if membership.fingerprint:
            check_meta(message.meta)
            sealed, size = UNSEALED, sealed_size(message)
        else:
            sealed = seal(message, membership, secrets.token_bytes)
            size = len(sealed.body)
        mesh = self.meshes.get(membership.mesh_id)
        most = mesh.runner.terms.inline_bytes_max if mesh is not None else size
        if size > most:
            text = f"The sealed message has {size} bytes; the broker takes {most}"
            raise PayloadTooLarge(text, limit_bytes=most, sealed_bytes=size)
        return sealed

    def _on_events(self, events: Sequence[DaemonEvent]) -> None:
        self.feed.publish(events)
        self.hooks.on_events(events)

    def _files_lost(self, lost: FilesLost) -> None:
        if self.lost is None:
            self.lost = lost
            self.log.error("files_lost", problem=str(lost), path=lost.details["path"])
            self.lose_files(lost)  # the other database is not to be answered for alone
            self.ended.set()

    def _on_end(self, error: LocalError) -> None:
        rotating = next((each for each in self.memberships.all() if each.next_seed and self._is_refused(each)), None)
        if rotating is not None:
            changed = replace(rotating, seed=rotating.next_seed, next_seed="", ended=None)
            self.memberships.put(changed)
            self.meshes.pop(rotating.mesh_id)
            self.attach(changed)
            return
        if self.refusal is not None:
            self.ended.set()

    def _is_refused(self, membership: Membership) -> bool:
        """Whether the broker does not know the member's key: it may know the one that was to replace it."""
        mesh = self.meshes.get(membership.mesh_id)
        ended = None if mesh is None else mesh.runner.ended
        return ended is not None and ended.details.get("close_code") == HELLO_REFUSED

    async def _keep_up(self) -> None:
        """Once a minute, and when there is space to give back: forgets what is old, ends sessions that are over, and
        tells of what fills."""
        while True:
            self.capacity.untidy.clear()
            await self.upkeep()
            with suppress(TimeoutError):
                async with asyncio.timeout(UPKEEP_SECONDS):
                    await self.capacity.untidy.wait()

    async def upkeep(self) -> None:
        """One round. What a full disk keeps it from doing is done in a later one."""
        try:
            await self._watch_disk()
            await self._tidy_up()
        except (ParleyError, OSError) as error:
            self.log.warning("upkeep_failed", problem=str(error))
        except Exception as error:  # whatever it is, the next round may do without it
            self.log.error("upkeep_failed", exc_info=error)

    async def _watch_disk(self) -> None:
        """Tells of a disk that is nearly full, in the log and as an event; and when there is room again."""
        if not self.disk.look():
            return
        seen = self.disk.seen
        kind: EventKind = "disk_freed" if seen.level == "ok" else "disk_low"
        data = {
            "disk": seen.level,
            "free_bytes": seen.disk.free_bytes,
            "disk_free_bytes_min": seen.least_bytes,
        }
        report = self.log.info if seen.level == "ok" else self.log.warning
        report(kind, **data)
        await self._tell(kind, data)

    async def _tidy_up(self) -> None:
        now_ms = self.clock.now_ms()
        await self.capacity.forget_old()
        self.archive.clean_up(now_ms)
        self.sessions.reap(now_ms)
        await self.hooks.save()
        await self._watch_pressure()
        await self.capacity.give_back()

    async def _watch_pressure(self) -> None:
        """Makes room where that may be done, and tells of what fills and of what was forgotten."""
        outbox = self.capacity.outbox_share()
        if outbox >= PRESSURE and not self._outbox_pressed:
            await self._tell("outbox_pressure_high", {"share": round(outbox, 3)})
        self._outbox_pressed = outbox >= PRESSURE
        forgotten = await self.capacity.make_room()
        inbox = self.capacity.inbox_share()
        level = (inbox >= PRESSURE) + (inbox >= 1)
        if forgotten or level > self._inbox_level:
            told = {"share": round(inbox, 3), "forgotten": forgotten, "full": inbox >= 1}
            self.log.warning("inbox_pressure_high", **told)
            await self._tell("inbox_pressure_high", told)
        self._inbox_level = level

    async def _tell(self, kind: EventKind, data: dict[str, Any]) -> None:
        now_ms = self.clock.now_ms()
        event = await self.store.write_inbox(lambda db: append_event(db, kind, data, now_ms=now_ms))
        self.feed.publish([event])


def _meta_of(row: OutboxRow) -> dict[str, Any]:
    try:
        return untrusted_json.decode(row.meta, dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInput(f"meta: {error}; no recipient would take it", field="meta", id=row.id) from error
