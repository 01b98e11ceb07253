"""A mesh whose members are decided by a roster: the member's own copy of it, its keys, and what it has to see to.

Errands change the copy, one at a time. What they made of it is told from here: names and addresses for whoever sends,
events for programs, and messages that waited for a key or for more of the roster.
"""

import asyncio
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypeVar

import apsw
from msgspec.structs import replace

from parley.core.daemon_errors import MeshKeyMissing
from parley.core.roster import Member, State, Step
from parley.core.roster.epoch_keys import EpochKeys, fits, with_keys
from parley.core.roster.heads import Head
from parley.daemon.inbox.reading import newest_seq
from parley.daemon.inbox.receive import Outcome, Received, SealedMessage
from parley.daemon.mesh import Mesh
from parley.daemon.notices import BROKERS_WORDS, Told, events_of_members
from parley.daemon.outbox.sending import Seal, hurry_unsealed
from parley.daemon.profile import OwnProfile, open_signed, sealed_and_signed
from parley.daemon.roster import Peer, Roster
from parley.daemon.rosters.acts import newest_keys
from parley.daemon.rosters.branches import follow_settlement, settle
from parley.daemon.rosters.copy import Marks, RosterCopy, View
from parley.daemon.rosters.errands import (
    Act,
    Ask,
    Errand,
    Keep,
    KeepKeys,
    Me,
    Need,
    Pause,
    append,
    bring_back,
    catch_up,
    drive,
)
from parley.daemon.rosters.keys import hand_on_keys, take_keys
from parley.daemon.rosters.messages import Reader, open_message, seal_row
from parley.daemon.rosters.rows import keep_entries, keep_marks, load_copy, read_entries
from parley.daemon.rosters.standing import Standing, duties, standing_of
from parley.wire.broker import Notice, RosterWelcome

T = TypeVar("T")
MORE_SECONDS: Final = 1.0
"""When to hand on more keys, after the broker has taken as many as it does at a time."""


class RosterMesh(Mesh):
    """What a daemon keeps for one membership of such a mesh."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        membership = self.membership
        self.copy = RosterCopy(membership.fingerprint, membership.floor)
        self.store.read_outbox(lambda db: load_copy(db, self.mesh_id, self.copy))
        self._one_errand = asyncio.Lock()
        self._watch = Standing()
        self._waits = True
        """Whether messages may be there that wait for more of the roster."""
        self._opened_with: tuple[Any, Any] = (None, None)
        self._held_of: tuple[Any, list[EpochKeys]] = (None, [])
        self._show()

    @property
    def state(self) -> State | None:
        """Who is in the mesh, as far as the member has read."""
        return self.copy.state

    @property
    def standing(self) -> Standing:
        """What people are told of the roster."""
        return self._watch

    @property
    def key_epoch(self) -> int | None:
        found = None if self.state is None else newest_keys(self.state, self.held())
        return None if found is None else found.epoch

    @property
    def roster_stale(self) -> bool:
        return self.runner.machine.ready and self._watch.head_n > self.copy.n

    @property
    def refresh_seconds(self) -> float:
        return min(super().refresh_seconds, self._watch.look_again_in(self.clock.monotonic()))

    def newest_head(self) -> Head | None:
        """The newest head of the broker's that the member has seen, from whomever."""
        marks = self.copy.marks
        return marks.owed or marks.head

    def held(self) -> list[EpochKeys]:
        """All keys of epochs that the member holds."""
        keys = self.membership.mesh_keys
        known, held = self._held_of
        if known is not keys:
            held = self.membership.epoch_keys
            self._held_of = (keys, held)
        return held

    def me(self) -> Me:
        """The member, for whoever says something in the roster."""
        membership = self.membership
        return Me(
            membership.member_id,
            membership.seed_bytes,
            self.seeds,
            self.clock.now_ms,
            secrets.token_bytes,
            self.held,
        )

    def reader(self) -> Reader:
        """The member, for whoever seals and opens."""
        membership = self.membership
        return Reader(membership.member_id, membership.seed_bytes, self.seeds, self.copy.view, self.held())

    def open(self, message: SealedMessage) -> Outcome:
        return open_message(message, self.reader())

    @property
    def seal(self) -> Seal | None:
        return lambda row: seal_row(row, self.reader(), secrets.token_bytes)

    async def read_roster(self) -> None:
        head = await self.run(catch_up(self.copy))
        self._watch.served(self.copy, head, self.clock.monotonic())

    async def former_members(self) -> list[Peer]:
        """Who was in the mesh and is no longer."""
        members = () if self.state is None else self.state.members.values()
        return [_peer(each) for each in members if not each.is_active]

    async def do(self, act: Act) -> list[Step]:
        """Says something in the roster. Raises what the roster's rules and the broker refuse."""
        steps = await self.run(append(self.copy, act, self.me()))
        self.look_again()
        return steps

    async def settle(self) -> list[Step]:
        """Says that the branch counts which the broker serves now. Raises as ``do`` does."""
        steps = await self.run(settle(self.copy, self.me(), self._entries))
        self.look_again()
        return steps

    async def run(self, errand: Errand[T]) -> T:
        """Drives an errand to its end, alone."""
        async with self._one_errand:
            before = self.copy.view
            try:
                return await drive(errand, self._fill)
            finally:
                await self._note(before)

    async def bring_up_to_date(self) -> None:
        judged = self.store.read_inbox(newest_seq)
        await self.read_roster()
        if self.copy.marks.split is not None:
            await self.run(follow_settlement(self.copy))
        if await self.run(take_keys(self.copy, self.me())):
            await self._hurry()
        await self._bring_back()
        for act in duties(self.copy, self.me(), self._watch, self.clock.monotonic()):
            await self.do(act)
        if (await self.run(hand_on_keys(self.copy, self.me()))).more:
            asyncio.get_running_loop().call_later(MORE_SECONDS, self.look_again)
        await self._open_again(judged)
        await self._tell_of_changes()

    async def _open_again(self, judged_seq: int) -> None:
        """Tries what was kept, if there is anything that it could not have been tried with before."""
        state, held = self._opened_with
        now = (self.state, self.membership.mesh_keys)
        if self._waits or state is not now[0] or held is not now[1]:
            self._waits, self._opened_with = False, now
            await self.open_kept_again(judged_seq)

    def on_open(self) -> None:
        welcome = self.runner.machine.link.welcome
        assert isinstance(welcome, RosterWelcome)
        self._watch.opened(welcome.roster, self.clock.monotonic())

    def heed(self, notice: Notice) -> None:
        if notice.name == "roster_head":
            n = notice.data.get("n")
            self._watch.told_of(n if isinstance(n, int) else 0)
            self.look_again()
        elif notice.name == "key_given" and notice.data.get("member_id") == self.membership.member_id:
            self.look_again()
        elif notice.name == "key_wanted":
            self.look_soon_or_later()

    def hear(self, received: Sequence[Received]) -> None:
        self.hear_kept([(each.sender_id, each.head) for each in received if each.head is not None])
        if any(each.waits for each in received):
            self._waits = True
            self.look_again()

    def hear_kept(self, heads: Sequence[tuple[str, Head]]) -> None:
        before = self.copy.marks
        for sender, head in heads:
            if self.copy.hear(head) == "known" and sender != self.membership.member_id:
                self.copy.confirm(head, sender, self.clock.now_ms())
        if self.copy.marks is not before:
            marks = self.copy.marks
            self.store.write_outbox_later(lambda db: keep_marks(db, self.mesh_id, marks))
            if self.copy.marks.owed != before.owed or self.copy.marks.split != before.split:
                self._watch.owes(self.clock.monotonic())
                self.look_again()

    def seal_profile(self, own: OwnProfile) -> dict[str, Any]:
        who = self.reader()
        keys = None if who.view is None else newest_keys(who.view.state, who.held)
        if keys is None:
            raise MeshKeyMissing("The mesh key has not arrived yet", mesh=self.slug, since=self.membership.joined_at)
        return sealed_and_signed(own, who.member_id, who.seed, self.copy.fingerprint, keys, secrets.token_bytes)

    def open_profile(self, member_id: str, told: Any) -> dict[str, Any]:
        state = self.state
        member = None if state is None else state.members.get(member_id)
        if state is None or member is None:
            return {}
        keys = [each for each in self.held() if each.mesh and fits(state, each)]
        return open_signed(told, member, state.fingerprint, keys)

    async def _fill(self, need: Need) -> Any:
        match need:
            case Ask():
                return await self.runner.ask(need.method, need.params)
            case Keep():
                return await self.store.write_outbox(partial(self._keep, need))
            case KeepKeys():
                self._keep_keys(need.keys)
            case Pause():
                await asyncio.sleep(need.ms / 1000)
        return None

    def _keep(self, need: Keep, db: apsw.Connection) -> None:
        keep_entries(db, self.mesh_id, need.steps, fork=need.fork)
        keep_marks(db, self.mesh_id, self.copy.marks)

    def _keep_keys(self, keys: EpochKeys) -> None:
        """Written down before anybody relies on them. Those that came too late for their epoch are dropped."""
        membership, state = self.membership, self.state
        held = [
            each for each in membership.epoch_keys if state is None or each.epoch > state.epoch or fits(state, each)
        ]
        self.memberships.put(membership.holding(with_keys(held, keys)))

    async def _bring_back(self) -> None:
        """A restored broker goes on where an owner's copy ends, once everybody had time to show theirs."""
        head = self._watch.to_be_confirmed(self.copy, self.membership.member_id, self.clock.monotonic())
        if head is None:
            return

        if await self.run(bring_back(self.copy, head, self._entries)):
            self._watch.restored()

    def _entries(self, start: int, limit: int) -> list[bytes]:
        return self.store.read_outbox(lambda db: read_entries(db, self.mesh_id, start, limit))

    async def _note(self, before: View | None) -> None:
        """What an errand has changed is told, and written down as far as it is not yet."""
        after = self.copy.view
        if after is None or (before is not None and before.state is after.state and before.marks is after.marks):
            return
        marks: Marks = after.marks
        await self.store.write_outbox(lambda db: keep_marks(db, self.mesh_id, marks))
        if before is None or before.state is not after.state:
            self._show()
            await self._hurry()
        if before is not None and before.state is not after.state:
            told = events_of_members(before.state, after.state)
            if told:
                self.tell(told)

    async def _hurry(self) -> None:
        """What could not be sealed is tried again now."""
        now_ms = self.clock.now_ms()
        if await self.store.write_outbox(lambda db: hurry_unsealed(db, self.mesh_id, now_ms=now_ms)):
            self.runner.wake()

    def _show(self) -> None:
        """Who is there goes by name from now on; and the membership says what the roster does."""
        state = self.state
        if state is None:
            self.roster = Roster(self.mesh_id, self.slug, None, signed=True)
            return
        peers = [_peer(each) for each in state.active()]
        self.roster = Roster(self.mesh_id, self.slug, peers, signed=True)
        membership, own = self.membership, state.members.get(self.membership.member_id)
        if own is not None and (own.role, own.name) != (membership.role, membership.display_name):
            self.memberships.put(replace(membership, role=own.role, display_name=own.name))

    async def _tell_of_changes(self) -> None:
        now = standing_of(self.copy, self.membership.member_id, self.held())
        told = self._watch.news(now)
        if told:
            self.log.warning("roster_status", mesh=self.slug, **told)
            self.tell([Told("roster_status", told)])


def _peer(member: Member) -> Peer:
    state = BROKERS_WORDS.get(member.status, member.status)
    return Peer(member.id, member.key, member.name, member.role, state, [old.key for old in member.old_keys])
