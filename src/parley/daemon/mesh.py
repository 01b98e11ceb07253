"""One mesh of a running daemon: its runner, who is in it, and its keys.

When the link is ready, and when the broker tells of a change that concerns it, the mesh is brought up to date: keys
that were given are taken over, and members that wait for one are given it. Each step may be repeated. In a large mesh
every change is told to all, so not all may act on it at once: owners and admins give a key at once and others only
after a while, should it still be wanted; and the list of members is read when a name is to be looked up.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from parley.core import sealing
from parley.core.backoff import Backoff, Jitter
from parley.core.clock import Clock, iso
from parley.core.daemon_settings import DaemonSettings
from parley.core.errors import LocalError, ParleyError
from parley.daemon.inbox.events import DaemonEvent, append_event
from parley.daemon.inbox.receive import Opened, SealedMessage, open_kept
from parley.daemon.inbox.renewal import mark_refilled, wants_refill
from parley.daemon.key_archive import KeyArchive
from parley.daemon.key_exchange import Gift, Wanting, believe, gifts_for, make_first_key, trusting
from parley.daemon.link import HELLO_REFUSED, MEMBERSHIP_ENDED, LinkSettings, Member
from parley.daemon.memberships import Membership, Memberships
from parley.daemon.notices import Told, events_of
from parley.daemon.profile import OwnProfile, read_own, sealed_params, write_own
from parley.daemon.roster import Peer, list_all, peers_of, read_roster, write_roster
from parley.daemon.runner import MeshRunner
from parley.daemon.sealer import open_sealed
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
        self.roster = read_roster(home, membership.mesh_id, membership.slug)
        self._home = home
        self._memberships = memberships
        self._archive = archive
        self._store = store
        self._clock = clock
        self._log = log
        self._on_events = on_events
        self._on_end = on_end
        self._given: set[tuple[str, int]] = set()
        self._refused: set[str] = set()
        self.leaving = False
        """Set while the member itself asks to go, which is no end that anybody must be told of."""
        self._roster_changes, self._roster_read = 1, 0
        self._telling: set[asyncio.Task[None]] = set()
        self._jitter = jitter
        self._kept_after: int | None = 0
        """After which message to go on trying those that could not be opened; None when all were tried."""
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
            on_notice=self._heed,
            on_ready=self._on_ready,
            on_end=self._end,
        )

    @property
    def membership(self) -> Membership:
        """As it is now."""
        return self._memberships.get(self.mesh_id)

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
        if self._roster_read < self._roster_changes:
            await self.read_roster()
        await self._take_keys()
        await self._give_keys()
        await self._renew_profile()
        if self._store.read_inbox(lambda db: wants_refill(db, self.mesh_id)):
            await self.runner.ask("redeliver")
            await self._store.write_inbox(lambda db: mark_refilled(db, self.mesh_id))

    async def tell_profile(self, changes: dict[str, Any]) -> None:
        """Tells the members what has changed of what the member tells of itself. Raises what the broker refuses."""
        before = read_own(self._home, self.mesh_id) or OwnProfile()
        words = {name: value for name, value in changes.items() if name != "visible"}
        visible = bool(changes.get("visible", before.visible))
        await self._send_profile(OwnProfile(replace(before.profile, **words), visible))

    async def _send_profile(self, own: OwnProfile) -> None:
        params = sealed_params(own, self.membership, secrets.token_bytes)
        await self.runner.ask("set_profile", params)
        write_own(self._home, self.mesh_id, replace(own, key_epoch=params["key_epoch"]))

    async def _renew_profile(self) -> None:
        """Who joined later has only later keys, so a profile is sealed anew with each."""
        own, key = read_own(self._home, self.mesh_id), self.membership.newest_key
        if own is not None and key is not None and own.key_epoch != key.epoch:
            await self._send_profile(own)

    async def read_roster(self) -> None:
        """Asks the broker who is in the mesh.

        The roster stays stale until the answer is here, and if something changed while it was on its way, also then.
        """
        changes = self._roster_changes
        peers = peers_of(await list_all(self.runner.ask, "members", "members"))
        self._roster_read = max(self._roster_read, changes)
        if peers != self.roster.peers:
            self.roster = replace(self.roster, peers=peers)
            write_roster(self._home, self.roster)

    async def former_members(self) -> list[Peer]:
        """Who was in the mesh and is no longer, as its broker tells now: too many to be kept here."""
        peers = peers_of(await list_all(self.runner.ask, "members", "members", former=True))
        return [peer for peer in peers if peer.state != "active"]  # an older broker lists everybody

    @property
    def roster_stale(self) -> bool:
        """Whether somebody came, went or has another key since the broker was asked, and it can be asked now."""
        return self._roster_read < self._roster_changes and self.runner.machine.ready

    async def _keep_in_sync(self) -> None:
        while True:
            await self._attempt(self._open_kept)  # also what a daemon that was stopped on the way has left
            try:
                async with asyncio.timeout(REFRESH_SECONDS if self.membership.mesh_keys else KEYLESS_SECONDS):
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
            self._log.warning("mesh_not_refreshed", mesh=self.slug, code=error.code, problem=str(error))
        except Exception as error:  # what a broker answers may have any form
            self._log.error("mesh_not_refreshed", mesh=self.slug, exc_info=error)

    async def _take_keys(self) -> None:
        welcome = self.runner.machine.link.welcome
        before = self.membership
        known = before if welcome is None else replace(before, role=welcome.role, display_name=welcome.display_name)
        answer = await self.runner.ask("keys")
        gifts = msgspec.convert(answer["keys"], list[Gift])
        believed = believe(known, gifts)
        changed = believed.membership
        if not gifts or not any(each.epoch == answer["key_epoch"] for each in changed.mesh_keys):
            changed = make_first_key(changed, int(answer["key_epoch"]), secrets.token_bytes) or changed
        if changed != before:
            self._memberships.put(changed)
        if changed.mesh_keys != before.mesh_keys:
            self._kept_after = 0
            await self._open_kept()
        for gift in believed.refused:
            await self.runner.ask("refuse_key", {"key_epoch": gift.key_epoch, "giver_id": gift.giver_id})

    async def _give_keys(self) -> None:
        if not self.membership.mesh_keys:
            return
        wanted = await list_all(self.runner.ask, "keys_wanted", "wanted")
        for wanting in msgspec.convert(wanted, list[Wanting]):
            gifts = gifts_for(self.membership, wanting, secrets.token_bytes)
            self._tell_of_stranger(wanting, refused=not gifts)
            for gift in gifts:
                given = (wanting.pubkey, gift.key_epoch)
                if given not in self._given:
                    self._memberships.put(trusting(self.membership, wanting.pubkey))
                    params = {"member_id": gift.member_id, "key_epoch": gift.key_epoch, "sealed": gift.sealed}
                    await self.runner.ask("give_key", params)
                    self._given.add(given)

    def _tell_of_stranger(self, wanting: Wanting, *, refused: bool) -> None:
        """Says once of a member that it gets no key: its invite was damaged, or a broker brought it in by itself."""
        if not refused:
            self._refused.discard(wanting.member_id)
        elif wanting.member_id not in self._refused:
            self._refused.add(wanting.member_id)
            self._log.warning("key_not_given", mesh=self.slug, member_id=wanting.member_id, problem="no proof fits")

    async def _open_kept(self) -> None:
        """Tries all that could not be opened with the keys that are there now, some in each commit."""
        while (after := self._kept_after) is not None:
            now_ms, mesh_id = self._clock.now_ms(), self.mesh_id
            rule = partial(open_kept, open_sealed=self._open, mesh_id=mesh_id, now_ms=now_ms, after_seq=after)
            reopened = await self._store.write_inbox(rule)
            self._on_events(reopened.events)
            self._kept_after = reopened.after_seq

    def _open(self, message: SealedMessage) -> Opened | None:
        membership = self.membership
        archived = self._archive.seeds_of(self.mesh_id, self._clock.now_ms())
        try:
            return open_sealed(message, membership, [membership.seed_bytes, *archived])
        except Exception as error:  # one that is not stored comes again for ever, and keeps others out
            self._log.error("message_not_opened", mesh=self.slug, sender=message.sender_pubkey, exc_info=error)
            return None

    def _end(self, error: LocalError) -> None:
        """Written down, as the next command may come when no daemon runs any more."""
        if self.leaving:
            return
        removed = error.details.get("close_code") in (MEMBERSHIP_ENDED, HELLO_REFUSED)
        ended = MembershipEnded(error.code, str(error), iso(self._clock.now_ms()), removed)
        self._memberships.put(replace(self.membership, ended=ended))
        self._on_end(error)

    def _on_ready(self) -> None:
        if self.membership.ended is not None:
            self._memberships.put(replace(self.membership, ended=None))
        self._roster_changes += 1  # whoever came or went while the broker was away was not told of
        self._again.set()

    def _heed(self, notice: Notice) -> None:
        if notice.name.startswith("member_"):
            self._roster_changes += 1
        for_us = notice.data.get("member_id") == self.runner.member.member_id
        if notice.name == "member_gone" or (notice.name == "key_given" and for_us):
            self._again.set()
        elif notice.name in ("member_joined", "key_wanted"):
            self._give_soon_or_later()
        told = events_of(notice, self.runner.member.member_id)
        if told:
            task = asyncio.get_running_loop().create_task(self._tell(told))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    def _give_soon_or_later(self) -> None:
        if self.membership.role != "member":
            self._again.set()
            return
        first, last = LATER_SECONDS
        asyncio.get_running_loop().call_later(first + (last - first) * self._jitter(), self._again.set)

    async def _tell(self, told: list[Told]) -> None:
        now_ms, mesh_id = self._clock.now_ms(), self.mesh_id

        def write(db: apsw.Connection) -> list[DaemonEvent]:
            return [append_event(db, kind, data, now_ms=now_ms, mesh_id=mesh_id) for kind, data in told]

        try:
            events = await self._store.write_inbox(write)
        except ParleyError as error:
            self._log.warning("event_not_written", kind=told[0].kind, code=error.code)
            return
        except Exception as error:  # what a notice holds may be anything
            self._log.error("event_not_written", kind=told[0].kind, exc_info=error)
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
