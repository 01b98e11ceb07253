"""Replacing a member's key.

The old key is archived and the new one written down, both synced, before the broker is told: if that fails nothing is
replaced, and a crash at any moment leaves both keys on disk. Should the broker then know the new one alone, a refused
hello is tried once more with it. What is still in the outbox is sealed under the old key, so it should be gone first;
what comes in meanwhile says which key it was sealed under, and can be opened by it.
"""

import secrets
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from parley.core import sealing
from parley.core.daemon_errors import OutboxConflict
from parley.core.errors import ServiceUnavailable
from parley.daemon.memberships import Membership
from parley.daemon.outbox.rows import list_rows
from parley.daemon.rosters.acts import rotate
from parley.daemon.rosters.mesh import RosterMesh
from parley.wire.daemon_answers import KeyRotated
from parley.wire.mesh_methods import rotation_bytes, rotation_proof

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon
    from parley.daemon.mesh import Mesh

TRIED_SECONDS: Final = 5.0
"""How long the answer waits for the connection under the new key; with all the rest, less than a client waits."""


async def rotate_keypair(daemon: "Daemon", mesh: "Mesh", *, compromised: bool = False) -> KeyRotated:
    """The old and the new public key. Raises ``OutboxConflict`` while messages wait, and what the broker refuses."""
    # In a mesh with a roster, what was sealed under the old key until now is taken from it for good.
    for status in ("pending", "inflight") if not isinstance(mesh, RosterMesh) else ():
        waiting = daemon.store.read_outbox(
            lambda db, status=status: list_rows(db, status=status, mesh_id=mesh.mesh_id, limit=1)
        )
        if waiting:
            raise OutboxConflict("Messages are still being sent under the old key", reason=status, id=waiting[0].id)
    old = mesh.membership
    seed = sealing.new_key(secrets.token_bytes)
    pubkey = sealing.public_key(seed).hex()
    try:
        daemon.archive.add(
            mesh.mesh_id,
            old.seed_bytes,
            now_ms=daemon.clock.now_ms(),
            grace_days=daemon.settings.crypto.key_grace_period_days,
        )
    except OSError as error:
        raise ServiceUnavailable(
            f"The old key could not be archived: {error.strerror}", reason="key_rotation_aborted_archive_write_failed"
        ) from error
    daemon.memberships.put(replace(mesh.membership, next_seed=seed.hex()))
    if isinstance(mesh, RosterMesh):
        await mesh.do(rotate(seed, compromised=compromised))
    else:
        await _tell_broker(mesh, old, seed)
    changed = replace(mesh.membership, seed=seed.hex(), next_seed="")
    daemon.memberships.put(changed)
    await daemon.detach(mesh.mesh_id)
    await daemon.attach(changed).tried(TRIED_SECONDS)  # what is asked next expects a mesh that is there
    return KeyRotated(mesh.slug, old.pubkey, pubkey)


async def _tell_broker(mesh: "Mesh", old: Membership, seed: bytes) -> None:
    pubkey = sealing.public_key(seed).hex()
    signature = sealing.sign(seed, rotation_bytes(mesh.mesh_id, old.member_id, pubkey)).hex()
    key = old.newest_key
    proof = "" if key is None else rotation_proof(bytes.fromhex(key.key), mesh.mesh_id, pubkey)
    await mesh.runner.ask("rotate_key", {"pubkey": pubkey, "signature": signature, "proof": proof})
