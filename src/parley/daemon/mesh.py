"""One mesh of a running daemon: its connection, what the member tells of itself, and bringing it up to date.

Who is in the mesh and which keys it has is for its kind to know: in a ``RosterMesh`` a log decides that its members
sign, in a ``BrokerMesh``, which is from before there were rosters, the broker.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import apsw
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from parley.core import sealing
from parley.core.backoff import Backoff, Jitter
from parley.core.clock import Clock, iso
from parley.core.daemon_settings import DaemonSettings
from parley.core.errors import LocalError, ParleyError
from parley.core.roster.heads import Head
from parley.daemon.inbox.events import DaemonEvent, append_event
from parley.daemon.inbox.receive import Outcome, Received, SealedMessage, open_kept
from parley.daemon.inbox.renewal import mark_refilled, wants_refill
from parley.daemon.key_archive import KeyArchive
from parley.daemon.link import HELLO_REFUSED, MEMBERSHIP_ENDED, LinkSettings, Member
from parley.daemon.memberships import Membership, Memberships
from parley.daemon.notices import Told, events_of
from parley.daemon.outbox.sending import Seal
from parley.daemon.profile import OwnProfile, read_own, write_own
from parley.daemon.roster import Peer, Roster
from parley.daemon.runner import MeshRunner
from parley.daemon.store import DaemonStore
from parley.daemon.tally import Tally
from parley.wire.broker import Notice
from parley.wire.daemon_answers import MembershipEnded
from parley.wire.daemon_home import DaemonHome

REFRESH_SECONDS: Final = 300.0
KEYLESS_SECONDS: Final = 5.0
"""How long a member without a key waits for word that it was given one, before it looks."""
SOON_SECONDS: Final = 0.05
LATER_SECONDS: Final = (5.0, 30.0)
"""When a plain member sees whether a joiner still wants a key, spread by chance."""


class Mesh:
    """What a daemon keeps for one membership."""

    def __init__(
        self,
        membership: Membership,
        memberships: Memberships,
        archive: KeyArchive,
        settings: DaemonSettings,
        *,
        home: DaemonHome,
        instance_id: str,
        host_fingerprint: str,
        version: str,
        store: DaemonStore,
        clock: Clock,
        jitter: Jitter,
        log: FilteringBoundLogger,
        tally: Tally,
        on_events: Callable[[Sequence[DaemonEvent]], None],
        on_end: Callable[[LocalError], None],
    ) -> None:
        self.mesh_id = membership.mesh_id
        self.slug = membership.slug
        self.roster = Roster(membership.mesh_id, membership.slug)
        self.home = home
        self.memberships = memberships
        self.archive = archive
        self.store = store
        self.clock = clock
        self.log = log
        self._on_events = on_events
        self._on_end = on_end
        self.leaving = False
        """Set while the member itself asks to go, which is no end that anybody must be told of."""
        self._telling: set[asyncio.Task[None]] = set()
        self._jitter = jitter
        self._kept_after: int | None = 0
        """After which message to go on trying those that could not be opened; None when all were tried."""
        self._judged_seq = 0
        self._again = asyncio.Event()
        self._synced = asyncio.Event()
        self._syncing: asyncio.Task[None] | None = None

        def sign(data: bytes) -> bytes:
            return sealing.sign(membership.seed_bytes, data)

        member = Member(
            membership.mesh_id,
            membership.slug,
            membership.member_id,
            membership.pubkey,
            instance_id,
            host_fingerprint,
            version,
            sign,
            membership.fingerprint,
            self.newest_head,
        )
        self.runner = MeshRunner(
            member,
            socket_url(membership.broker_url),
            link_settings(settings),
            store=store,
            clock=clock,
            jitter=jitter,
            log=log,
            tally=tally,
            open_sealed=self._open,
            on_events=on_events,
            on_told=self.hear,
            seal=self.seal,
            on_notice=self._heed,
            on_ready=self._on_ready,
            on_end=self._end,
        )

    @property
    def membership(self) -> Membership:
        """As it is now."""
        return self.memberships.get(self.mesh_id)

    @property
    def lag_ms(self) -> float | None:
        """How long the broker took to answer last, while it is connected."""
        lag = self.runner.machine.link.lag_ms
        return None if lag is None else round(lag, 3)

    def start(self) -> None:
        """Connects, and keeps the mesh up to date from then on."""
        self.runner.start()
        self._syncing = asyncio.create_task(self._keep_in_sync())

    async def tried(self, seconds: float) -> None:
        """Waits until it is known how the first try to connect went and, if it went well, what the broker had for the
        member was taken: its first key among it. For so long at most.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.runner.tried.wait()
                if self.runner.machine.ready:
                    await self._synced.wait()

    async def stop(self) -> None:
        """Ends the connection."""
        if self._syncing is not None:
            self._syncing.cancel()
            await asyncio.gather(self._syncing, return_exceptions=True)
        await self.runner.stop()

    def tune(self, settings: DaemonSettings) -> None:
        """Other settings from now on; a connection that is open stays so."""
        self.runner.machine.tune(link_settings(settings))

    async def refresh(self) -> None:
        """Brings the roster and the keys up to date. Raises what the broker refuses.

        The roster is asked for before anybody needs it: a name must mean something also once the broker is away.
        """
        await self.bring_up_to_date()
        await self._renew_profile()
        if self.store.read_inbox(lambda db: wants_refill(db, self.mesh_id)):
            await self.runner.ask("redeliver")
            await self.store.write_inbox(lambda db: mark_refilled(db, self.mesh_id))

    # What the kinds of meshes do each in their own way.

    def bring_up_to_date(self) -> Awaitable[None]:
        """Learns who is in the mesh and which keys it has, and hands keys on. Raises what the broker refuses."""
        raise NotImplementedError

    def read_roster(self) -> Awaitable[None]:
        """Learns who is in the mesh, now. Raises what the broker refuses."""
        raise NotImplementedError

    def former_members(self) -> Awaitable[list[Peer]]:
        """Who was in the mesh and is no longer."""
        raise NotImplementedError

    @property
    def roster_stale(self) -> bool:
        """Whether somebody came, went or has another key since the broker was asked, and it can be asked now."""
        raise NotImplementedError

    @property
    def key_epoch(self) -> int | None:
        """Of the newest key that the member has."""
        raise NotImplementedError

    def open(self, message: SealedMessage) -> Outcome:
        """What a message says."""
        raise NotImplementedError

    def seal_profile(self, own: OwnProfile) -> dict[str, Any]:
        """The parameters of ``set_profile``. Raises ``MeshKeyMissing``."""
        raise NotImplementedError

    def open_profile(self, member_id: str, told: Any) -> dict[str, Any]:
        """The words of a member's profile, as far as they can be read."""
        raise NotImplementedError

    def heed(self, notice: Notice) -> None:
        """The broker tells of something."""
        raise NotImplementedError

    def on_open(self) -> None:
        """The connection is open."""

    def hear(self, received: Sequence[Received]) -> None:
        """What messages said of the roster."""

    def hear_kept(self, heads: Sequence[tuple[str, Head]]) -> None:
        """What messages that were opened later said of the roster, by their senders' ids."""

    def newest_head(self) -> Head | None:
        """How far the member has the roster, if there is one."""
        return None

    @property
    def seal(self) -> Seal | None:
        """Seals what is sent for the first time; None where messages are sealed when they are accepted."""
        return None

    # What the kinds of meshes are built on.

    @property
    def seeds(self) -> list[bytes]:
        """The member's keys, replaced ones included, the newest first."""
        return [self.membership.seed_bytes, *self.archive.seeds_of(self.mesh_id, self.clock.now_ms())]

    def look_again(self) -> None:
        """Has the mesh brought up to date soon."""
        self._again.set()

    def look_soon_or_later(self) -> None:
        """The same, unless owners and admins have done by then what there is to do."""
        if self.membership.role != "member":
            self.look_again()
            return
        first, last = LATER_SECONDS
        asyncio.get_running_loop().call_later(first + (last - first) * self._jitter(), self.look_again)

    async def open_kept_again(self, judged_seq: int = 0) -> None:
        """Tries all that could not be opened, as with new keys; ``judged_seq`` as of ``open_kept``."""
        self._kept_after, self._judged_seq = 0, max(judged_seq, self._judged_seq)
        await self._open_kept()

    def tell(self, told: list[Told]) -> None:
        """Writes events to the daemon's log."""
        task = asyncio.get_running_loop().create_task(self._tell(told))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def tell_profile(self, changes: dict[str, Any]) -> None:
        """Tells the members what has changed of what the member tells of itself. Raises what the broker refuses."""
        before = read_own(self.home, self.mesh_id) or OwnProfile()
        words = {name: value for name, value in changes.items() if name != "visible"}
        visible = bool(changes.get("visible", before.visible))
        await self._send_profile(OwnProfile(replace(before.profile, **words), visible))

    async def _send_profile(self, own: OwnProfile) -> None:
        params = self.seal_profile(own)
        await self.runner.ask("set_profile", params)
        write_own(self.home, self.mesh_id, replace(own, key_epoch=params["key_epoch"]))

    async def _renew_profile(self) -> None:
        """Who joined later has only later keys, so a profile is sealed anew with each."""
        own = read_own(self.home, self.mesh_id)
        if own is not None and self.key_epoch is not None and own.key_epoch != self.key_epoch:
            await self._send_profile(own)

    @property
    def refresh_seconds(self) -> float:
        """How long to wait for word of something before looking."""
        return KEYLESS_SECONDS if self.key_epoch is None else REFRESH_SECONDS

    async def _keep_in_sync(self) -> None:
        while True:
            await self._attempt(self._open_kept)  # also what a daemon that was stopped on the way has left
            try:
                async with asyncio.timeout(self.refresh_seconds):
                    await self._again.wait()
                await asyncio.sleep(SOON_SECONDS)  # what comes together is done together
            except TimeoutError:
                pass
            self._again.clear()
            if not self.runner.machine.ready:
                continue
            await self._attempt(self.refresh)
            self._synced.set()

    async def _attempt(self, step: Callable[[], Awaitable[None]]) -> None:
        """Does a step; what goes wrong in it is done in a later round."""
        try:
            await step()
        except ParleyError as error:
            self.log.warning("mesh_not_refreshed", mesh=self.slug, code=error.code, problem=str(error))
        except Exception as error:  # what a broker answers may have any form
            self.log.error("mesh_not_refreshed", mesh=self.slug, exc_info=error)

    async def _open_kept(self) -> None:
        """Tries all that could not be opened with the keys that are there now, some in each commit."""
        while (after := self._kept_after) is not None:
            now_ms, mesh_id = self.clock.now_ms(), self.mesh_id
            ids = {"mesh_id": mesh_id, "now_ms": now_ms, "after_seq": after, "judged_seq": self._judged_seq}
            reopened = await self.store.write_inbox(partial(open_kept, open_sealed=self._open, **ids))
            self._on_events(reopened.events)
            self.hear_kept(reopened.heads)
            self._kept_after = reopened.after_seq

    def _open(self, message: SealedMessage) -> Outcome:
        try:
            return self.open(message)
        except Exception as error:  # one that is not stored comes again for ever, and keeps others out
            self.log.error("message_not_opened", mesh=self.slug, sender=message.sender_pubkey, exc_info=error)
            return None

    def _end(self, error: LocalError) -> None:
        """Written down, as the next command may come when no daemon runs any more."""
        if self.leaving:
            return
        removed = error.details.get("close_code") in (MEMBERSHIP_ENDED, HELLO_REFUSED)
        ended = MembershipEnded(error.code, str(error), iso(self.clock.now_ms()), removed)
        self.memberships.put(replace(self.membership, ended=ended))
        self._on_end(error)

    def _on_ready(self) -> None:
        if self.membership.ended is not None:
            self.memberships.put(replace(self.membership, ended=None))
        self.on_open()
        self.look_again()

    def _heed(self, notice: Notice) -> None:
        self.heed(notice)
        told = events_of(notice, self.runner.member.member_id)
        if told:
            self.tell(told)

    async def _tell(self, told: list[Told]) -> None:
        now_ms, mesh_id = self.clock.now_ms(), self.mesh_id

        def write(db: apsw.Connection) -> list[DaemonEvent]:
            return [append_event(db, kind, data, now_ms=now_ms, mesh_id=mesh_id) for kind, data in told]

        try:
            events = await self.store.write_inbox(write)
        except ParleyError as error:
            self.log.warning("event_not_written", kind=told[0].kind, code=error.code)
            return
        except Exception as error:  # what a notice holds may be anything
            self.log.error("event_not_written", kind=told[0].kind, exc_info=error)
            return
        self._on_events(events)


def socket_url(broker_url: str) -> str:
    """Where a broker's WebSocket is: ``http`` becomes ``ws``, ``https`` becomes ``wss``."""
    scheme, _, rest = broker_url.rstrip("/").partition("://")
    return f"{ {'http': 'ws', 'https': 'wss'}.get(scheme, scheme) }://{rest.removesuffix('/ws')}/ws"


def link_settings(settings: DaemonSettings) -> LinkSettings:
    """What of the settings concerns the link."""
    wait = settings.reconnect
    backoff = Backoff(wait.initial_backoff_ms, max(wait.max_backoff_ms, wait.initial_backoff_ms), wait.jitter_pct / 100)
    return LinkSettings(backoff, settings.outbox.max_age_hours_override or None, settings.inbox.bytes_max)
