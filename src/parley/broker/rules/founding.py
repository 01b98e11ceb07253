"""How a mesh begins: the broker makes it, and signs the one invite that nobody in the mesh could sign yet.

Whoever joins by that invite is the owner and makes the mesh's first key, which the broker never sees.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from parley.broker.done import Done
from parley.broker.policy import DAY_MS, Policy
from parley.broker.rules.broker_key import make_broker_key
from parley.broker.rules.invites import join, register_invite, renew_proof
from parley.broker.rules.members import Mesh, create_mesh, lock_mesh
from parley.broker.tx import Tx
from parley.core import sealing
from parley.core.broker_errors import InviteRefused
from parley.core.clock import iso
from parley.core.errors import InvalidInput
from parley.wire.broker import Notice
from parley.wire.invites import Invite, decode_invite, encode_invite, signed_invite
from parley.wire.mesh_http import Joined, JoinMesh, join_bytes

INVITE: Final = "inv_"
OWNER_INVITE_DAYS: Final = 7


class Founded(NamedTuple):
    """A mesh, and the invite of its owner as text."""

    mesh: Mesh
    invite: str


@dataclass(frozen=True, slots=True)
class FoundMesh:
    """Makes a mesh. Again, while nobody has joined it, there is a new invite to the same one."""

    slug: str
    name: str
    broker_url: str
    policy: Policy
    seed: bytes
    """The broker's key, should it have none yet."""

    def __call__(self, tx: Tx) -> Founded:
        mesh = self._mesh(tx)
        seed = make_broker_key(tx, self.seed)
        invite = signed_invite(
            Invite(
                invite_id=tx.new_id(INVITE),
                mesh_id=mesh.mesh_id,
                mesh_slug=mesh.slug,
                broker_url=self.broker_url,
                role="owner",
                issuer=sealing.public_key(seed).hex(),
                expires_at=iso(tx.now_ms + OWNER_INVITE_DAYS * DAY_MS),
                uses_max=1,
                key_epoch=0,
            ),
            seed,
        )
        register_invite(tx, invite, None)
        return Founded(mesh, encode_invite(invite))

    def _mesh(self, tx: Tx) -> Mesh:
        """The mesh of this name, new or without members. Two brokers may make it at once; one of them finds it made."""
        try:
            return create_mesh(tx, self.slug, self.name, self.policy)
        except InvalidInput:
            row = tx.one("SELECT mesh_id FROM mesh WHERE slug = ?", self.slug)
            if row is None or tx.one("SELECT 1 FROM member WHERE mesh_id = ?", row[0]) is not None:
                raise
            return lock_mesh(tx, row[0])


@dataclass(frozen=True, slots=True)
class FoundFirst:
    """At a start: the broker's first mesh, as long as there is none that anybody has joined. None otherwise."""

    found: FoundMesh

    def __call__(self, tx: Tx) -> Founded | None:
        rows = tx.all("SELECT slug, (SELECT count(*) FROM member AS m WHERE m.mesh_id = x.mesh_id) FROM mesh AS x")
        if any(members or slug != self.found.slug for slug, members in rows):
            return None
        return self.found(tx)


@dataclass(frozen=True, slots=True)
class Join:
    """Makes the bearer of an invite a member."""

    asked: JoinMesh

    def __call__(self, tx: Tx) -> Done:
        asked = self.asked
        if not sealing.verify(bytes.fromhex(asked.pubkey), bytes.fromhex(asked.signature), join_bytes(asked)):
            raise InviteRefused("The joiner did not sign what it asks", reason="signature")
        invite, secret = decode_invite(asked.invite)
        if secret:
            raise InvalidInput("The secret of an invite is not for the broker", field="invite")
        if tx.one("SELECT 1 FROM mesh WHERE mesh_id = ?", invite.mesh_id) is None:
            raise InviteRefused("There is no such invite", reason="unknown")
        member, created = join(tx, invite, asked.pubkey, asked.display_name, asked.join_proof)
        if created:
            tx.run("UPDATE member SET ephemeral = ? WHERE member_id = ?", int(asked.ephemeral), member.member_id)
        mesh = lock_mesh(tx, member.mesh_id)
        answer = Joined(mesh.mesh_id, mesh.slug, member.member_id, member.display_name, member.role, mesh.key_epoch)
        told = {"member_id": member.member_id, "display_name": member.display_name, "pubkey": member.pubkey}
        notices = (Notice("member_joined", told),) if created else ()
        if not created and renew_proof(tx, invite, member, asked.join_proof):
            notices = (Notice("key_wanted", {"member_id": member.member_id, "key_epoch": mesh.key_epoch}),)
        return Done({"joined": answer, "created": created}, notices=notices, mesh_id=mesh.mesh_id)
