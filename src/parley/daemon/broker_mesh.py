"""A mesh in which the broker decides who is a member: who is in it, and its keys.

When the link is ready, and when the broker tells of a change that concerns it, the mesh is brought up to date: keys
that were given are taken over, and members that wait for one are given it. Each step may be repeated. In a large mesh
every change is told to all, so not all may act on it at once: owners and admins give a key at once and others only
after a while, should it still be wanted; and the list of members is read when a name is to be looked up.
"""

import secrets
from typing import Any

import msgspec
from msgspec.structs import replace

from parley.daemon.inbox.receive import Opened, SealedMessage
from parley.daemon.key_exchange import Gift, Wanting, believe, gifts_for, make_first_key, trusting
from parley.daemon.mesh import Mesh
from parley.daemon.profile import OwnProfile, opened, sealed_params
from parley.daemon.roster import Peer, list_all, peers_of, read_roster, write_roster
from parley.daemon.sealer import open_sealed
from parley.wire.broker import Notice


class BrokerMesh(Mesh):
    """What a daemon keeps for one membership of such a mesh."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.roster = read_roster(self.home, self.mesh_id, self.slug)
        self._given: set[tuple[str, int]] = set()
        self._refused: set[str] = set()
        self._roster_changes, self._roster_read = 1, 0

    @property
    def has_key(self) -> bool:
        return bool(self.membership.mesh_keys)

    async def bring_up_to_date(self) -> None:
        if self._roster_read < self._roster_changes:
            await self.read_roster()
        await self._take_keys()
        await self._give_keys()

    def seal_profile(self, own: OwnProfile) -> dict[str, Any]:
        return sealed_params(own, self.membership, secrets.token_bytes)

    def open_profile(self, member_id: str, told: Any) -> dict[str, Any]:
        return opened(self.membership, member_id, told)

    @property
    def key_epoch(self) -> int | None:
        key = self.membership.newest_key
        return None if key is None else key.epoch

    async def read_roster(self) -> None:
        """Asks the broker who is in the mesh.

        The roster stays stale until the answer is here, and if something changed while it was on its way, also then.
        """
        changes = self._roster_changes
        peers = peers_of(await list_all(self.runner.ask, "members", "members"))
        self._roster_read = max(self._roster_read, changes)
        if peers != self.roster.peers:
            self.roster = replace(self.roster, peers=peers)
            write_roster(self.home, self.roster)

    async def former_members(self) -> list[Peer]:
        """Who was in the mesh and is no longer, as its broker tells now: too many to be kept here."""
        peers = peers_of(await list_all(self.runner.ask, "members", "members", former=True))
        return [peer for peer in peers if peer.state != "active"]  # an older broker lists everybody

    @property
    def roster_stale(self) -> bool:
        """Whether somebody came, went or has another key since the broker was asked, and it can be asked now."""
        return self._roster_read < self._roster_changes and self.runner.machine.ready

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
            self.memberships.put(changed)
        if changed.mesh_keys != before.mesh_keys:
            await self.open_kept_again()
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
                    self.memberships.put(trusting(self.membership, wanting.pubkey))
                    params = {"member_id": gift.member_id, "key_epoch": gift.key_epoch, "sealed": gift.sealed}
                    await self.runner.ask("give_key", params)
                    self._given.add(given)

    def _tell_of_stranger(self, wanting: Wanting, *, refused: bool) -> None:
        """Says once of a member that it gets no key: its invite was damaged, or a broker brought it in by itself."""
        if not refused:
            self._refused.discard(wanting.member_id)
        elif wanting.member_id not in self._refused:
            self._refused.add(wanting.member_id)
            self.log.warning("key_not_given", mesh=self.slug, member_id=wanting.member_id, problem="no proof fits")

    def heed(self, notice: Notice) -> None:
        if notice.name.startswith("member_"):
            self._roster_changes += 1
        for_us = notice.data.get("member_id") == self.runner.member.member_id
        if notice.name == "member_gone" or (notice.name == "key_given" and for_us):
            self.look_again()
        elif notice.name in ("member_joined", "key_wanted"):
            self.look_soon_or_later()

    def on_open(self) -> None:
        self._roster_changes += 1  # whoever came or went while the broker was away was not told of

    def open(self, message: SealedMessage) -> Opened | None:
        return open_sealed(message, self.membership, self.seeds)
