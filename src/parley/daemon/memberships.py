"""The meshes that this user is a member of, with the keys: the one secret file of a daemon.

It is written whole and synced before anything relies on it. Keys of a mesh are kept for every epoch, since what was
sealed in an old one may still arrive; should two owners have made a key for the same epoch at once, both are kept.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from parley.core import sealing, untrusted_json
from parley.core.daemon_errors import MembershipsDamaged, MeshNotAttached, MeshRequired
from parley.core.errors import SchemaTooNew
from parley.core.files import write_atomic
from parley.core.roster.epoch_keys import EpochKeys
from parley.wire.daemon_answers import MembershipEnded

VERSION: Final = 1


class MeshKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """The keys of one epoch, in hexadecimal. In a mesh with a roster there is a key for its data besides."""

    epoch: int
    key: str
    data: str = ""


class Membership(msgspec.Struct, frozen=True):
    """One mesh, one member."""

    mesh_id: str
    slug: str
    broker_url: str
    member_id: str
    display_name: str
    seed: str
    joined_at: str
    next_seed: str = ""
    """A key that is about to take the place of ``seed``, while the broker is being told."""
    role: str = "member"
    invite: str = ""
    """With what the member joined, its secret included; of a mesh with a roster, the invite's id."""
    mesh_keys: list[MeshKey] = []
    trusted: list[str] = []
    """Public keys of members who have shown that they are of this mesh: from them a new mesh key is believed."""
    subscriptions: list[str] = []
    fingerprint: str = ""
    """Of the mesh's roster, which decides who is a member; empty for a mesh in which the broker does."""
    floor: tuple[int, str] | None = None
    """The end of the roster when the member joined, by number and hash: no broker may show less."""
    ended: MembershipEnded | None = None
    """Set from the end of a connection that is not made again until the next one is open, at a later start."""

    @property
    def seed_bytes(self) -> bytes:
        return bytes.fromhex(self.seed)

    @property
    def pubkey(self) -> str:
        return sealing.public_key(self.seed_bytes).hex()

    @property
    def epoch_keys(self) -> list[EpochKeys]:
        """All keys that the member holds of a mesh with a roster, be they those that the roster commits to or not."""
        return [EpochKeys(each.epoch, bytes.fromhex(each.key), bytes.fromhex(each.data)) for each in self.mesh_keys]

    def holding(self, keys: Sequence[EpochKeys]) -> "Membership":
        """The membership with these keys of epochs and no others."""
        return replace(self, mesh_keys=[MeshKey(each.epoch, each.mesh.hex(), each.data.hex()) for each in keys])

    @property
    def newest_key(self) -> MeshKey | None:
        """The key to seal with: of the newest epoch and, of several for it, the one that all would choose."""
        return max(self.mesh_keys, key=lambda each: (each.epoch, each.key), default=None)


class _File(msgspec.Struct, frozen=True):
    version: int
    meshes: list[Membership]


class Memberships:
    """The file, read once and written whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._meshes: dict[str, Membership] = {}

    def load(self) -> None:
        """Reads the file; none is the same as an empty one. Raises ``MembershipsDamaged``."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            self._meshes = {}
            return
        except OSError as error:
            raise MembershipsDamaged(f"Cannot read {self._path}: {error.strerror}", path=str(self._path)) from error
        try:
            found = untrusted_json.decode(data, _File)
        except msgspec.DecodeError as error:
            raise MembershipsDamaged(f"{self._path} is damaged", path=str(self._path)) from error
        if found.version != VERSION:
            raise SchemaTooNew(f"{self._path} has version {found.version}; this Parley knows {VERSION}")
        self._meshes = {each.mesh_id: each for each in found.meshes}

    def all(self) -> list[Membership]:
        return list(self._meshes.values())

    def get(self, name: str) -> Membership:
        """The mesh with this id or slug. Raises ``MeshNotAttached``, or ``MeshRequired`` where two are called so."""
        if name in self._meshes:
            return self._meshes[name]
        found = [each for each in self._meshes.values() if each.slug == name]
        if not found:
            raise MeshNotAttached(f"Not a member of {name}", mesh=name, attached=[each.slug for each in self.all()])
        if len(found) > 1:
            ids = [each.mesh_id for each in found]
            raise MeshRequired(f"{' and '.join(ids)} are both called {name}; name one by its id", attached=ids)
        return found[0]

    def add(self, membership: Membership) -> Membership:
        """Adds one, durably, as it is called from now on: here no two meshes go by one name."""
        taken = {each.slug for each in self._meshes.values() if each.mesh_id != membership.mesh_id}
        slug, number = membership.slug, 2
        while slug in taken:
            slug, number = f"{membership.slug}-{number}", number + 1
        named = replace(membership, slug=slug)
        self.put(named)
        return named

    def only(self, name: str | None) -> Membership:
        """The one with this id or slug, or the only one. Raises ``MeshNotAttached`` or ``MeshRequired``."""
        if name is not None:
            return self.get(name)
        if len(self._meshes) != 1:
            raise MeshRequired("Which mesh is meant?", attached=[each.slug for each in self.all()])
        return next(iter(self._meshes.values()))

    def put(self, membership: Membership) -> None:
        """Adds or replaces one, durably."""
        self._write({**self._meshes, membership.mesh_id: membership})

    def remove(self, mesh_id: str) -> None:
        """Forgets one, durably."""
        self._write({name: each for name, each in self._meshes.items() if name != mesh_id})

    def save(self) -> None:
        """Writes all of them again."""
        self._write(self._meshes)

    def _write(self, meshes: dict[str, Membership]) -> None:
        data = msgspec.json.encode(_File(VERSION, list(meshes.values())))
        write_atomic(self._path, msgspec.json.format(data, indent=2) + b"\n")
        self._meshes = meshes
