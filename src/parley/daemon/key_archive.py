"""Keys that were replaced, kept for a while, since what was sealed to them may still arrive.

The old key is in this file, synced, before the new one takes its place anywhere: otherwise a crash in between would
make what is under way unreadable for good. A file that cannot be read is put aside and an empty one begun.
"""

from pathlib import Path
from typing import Final

import msgspec

from parley.core import sealing, untrusted_json
from parley.core.clock import stamp
from parley.core.files import write_atomic

SCHEMA: Final = 1
KEYS_MAX: Final = 8
"""Replaced keys of one mesh that are kept; the oldest gives way."""
DAY_MS: Final = 24 * 3_600_000


class ArchivedKey(msgspec.Struct, frozen=True):
    """A key that was replaced."""

    mesh_id: str
    pubkey: str
    seed: str
    rotated_out_at: int
    expires_at: int


class _File(msgspec.Struct, frozen=True):
    schema_version: int
    max_archived_keys: int
    keys: list[ArchivedKey]


class KeyArchive:
    """The file, read once and written whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._keys: list[ArchivedKey] = []

    def load(self, now_ms: int) -> Path | None:
        """Reads the file; where a malformed one was put, if it was."""
        try:
            found = untrusted_json.decode(self._path.read_bytes(), _File)
            if found.schema_version != SCHEMA or not all(map(_is_sound, found.keys)):
                raise ValueError("not an archive of this version")
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            aside = self._path.with_name(f"{self._path.name}.malformed-{stamp(now_ms)}")
            self._path.rename(aside)
            return aside
        self._keys = found.keys
        return None

    def __bool__(self) -> bool:
        """Whether there is a key in it."""
        return bool(self._keys)

    def add(self, mesh_id: str, seed: bytes, *, now_ms: int, grace_days: int) -> None:
        """Keeps a key that is about to be replaced, durably. Raises ``OSError``; then nothing may be replaced."""
        new = ArchivedKey(mesh_id, sealing.public_key(seed).hex(), seed.hex(), now_ms, now_ms + grace_days * DAY_MS)
        ours = [each for each in self._alive(now_ms) if each.mesh_id == mesh_id and each.seed != new.seed]
        others = [each for each in self._alive(now_ms) if each.mesh_id != mesh_id]
        self._write([*others, *ours[-(KEYS_MAX - 1) :], new])

    def clean_up(self, now_ms: int) -> int:
        """Forgets what has expired. How many."""
        alive = self._alive(now_ms)
        gone = len(self._keys) - len(alive)
        if gone:
            self._write(alive)
        return gone

    def seeds_of(self, mesh_id: str, now_ms: int) -> list[bytes]:
        """The replaced keys of a mesh that still open what arrives, the newest first."""
        return [bytes.fromhex(each.seed) for each in reversed(self._alive(now_ms)) if each.mesh_id == mesh_id]

    def save(self) -> None:
        """Writes what it has again. Raises ``OSError``."""
        self._write(self._keys)

    def _alive(self, now_ms: int) -> list[ArchivedKey]:
        return [each for each in self._keys if each.expires_at > now_ms]

    def _write(self, keys: list[ArchivedKey]) -> None:
        data = msgspec.json.encode(_File(SCHEMA, KEYS_MAX, keys))
        write_atomic(self._path, msgspec.json.format(data, indent=2) + b"\n")
        self._keys = keys


def _is_sound(key: ArchivedKey) -> bool:
    seed = bytes.fromhex(key.seed)
    return len(seed) == sealing.KEY_BYTES and sealing.public_key(seed).hex() == key.pubkey
