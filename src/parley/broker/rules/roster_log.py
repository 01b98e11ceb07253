"""A roster's entries as the broker keeps them: in the mesh's one order, never changed and never removed.

Beside the log stands how far it goes, with the head that the broker signed when it was written. All else that is kept
of a roster follows from the log, and ``first_misfit`` shows whether it does.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from parley.broker.rules.roster_state import keep_snapshot
from parley.broker.tx import Row, Tx
from parley.core.broker_errors import NoRoster
from parley.core.roster import State, Step
from parley.core.roster.heads import Head, sign_head

PAGE_BYTES_MAX: Final = 512 * 1024
"""Entries of one answer. As text inside JSON they are at most twice as long, which fits into a frame."""
_FIRST_EPOCH: Final = 1
_KEPT: Final = "mesh_id, fingerprint, epoch, seq, n, hash, signature, restoring, told"
_ADD: Final = (
    "INSERT INTO mesh_log (mesh_id, epoch, seq, n, author, kind, entry, hash, appended_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Kept(NamedTuple):
    """How far a mesh's roster goes, and its place in the mesh's order."""

    mesh_id: str
    fingerprint: str
    epoch: int
    seq: int
    head: Head
    restoring: bool
    told: Head | None
    """While it is being restored: the newest head of the lost part that a member has come with."""

    @property
    def n(self) -> int:
        return self.head.n


def find_roster(tx: Tx, mesh_id: str) -> Kept | None:
    """The mesh's roster; None for a mesh in which the broker decides."""
    row = tx.one(f"SELECT {_KEPT} FROM roster WHERE mesh_id = ?", mesh_id)
    return None if row is None else _kept(row)


def get_roster(tx: Tx, mesh_id: str) -> Kept:
    """The mesh's roster. Raises ``NoRoster``."""
    kept = find_roster(tx, mesh_id)
    if kept is None:
        raise NoRoster("This mesh has no roster", mesh_id=mesh_id)
    return kept


def with_fingerprint(tx: Tx, fingerprint: str) -> Kept | None:
    """The roster that begins with this entry."""
    row = tx.one(f"SELECT {_KEPT} FROM roster WHERE fingerprint = ?", fingerprint)
    return None if row is None else _kept(row)


def begin_log(tx: Tx, mesh_id: str, steps: Sequence[Step], seed: bytes) -> Kept:
    """Keeps the first entries of a roster."""
    first = steps[0]
    head = _signed(steps[-1].state, seed)
    tx.run(
        "INSERT INTO roster (mesh_id, fingerprint, epoch, epoch_follows, seq, n, hash, signature, restoring)"
        " VALUES (?, ?, ?, 0, 0, ?, ?, ?, 0)",
        *(mesh_id, first.state.fingerprint, _FIRST_EPOCH, head.n, head.hash, head.sig),
    )
    return extend_log(tx, get_roster(tx, mesh_id), steps, seed)


def extend_log(tx: Tx, kept: Kept, steps: Sequence[Step], seed: bytes) -> Kept:
    """Writes what was judged. The mesh is locked, so the numbers are the next ones, and stay so until the commit."""
    tx.many(_ADD, [_row(kept, kept.seq + place, step, tx.now_ms) for place, step in enumerate(steps, 1)])
    state = steps[-1].state
    head, seq = _signed(state, seed), kept.seq + len(steps)
    tx.run(
        "UPDATE roster SET seq = ?, n = ?, hash = ?, signature = ? WHERE mesh_id = ?",
        *(seq, head.n, head.hash, head.sig, kept.mesh_id),
    )
    keep_snapshot(tx, kept.mesh_id, steps)
    return kept._replace(seq=seq, head=head)


def signed_head(tx: Tx, kept: Kept, n: int, seed: bytes) -> Head:
    """The head as it was when the entry ``n`` was the newest."""
    row = tx.one("SELECT hash FROM mesh_log WHERE mesh_id = ? AND n = ?", kept.mesh_id, n)
    assert row is not None
    return sign_head(n, row[0], fingerprint=kept.fingerprint, seed=seed)


def page(tx: Tx, mesh_id: str, start: int, limit: int) -> list[bytes]:
    """The entries from a number on, so many at most and as many as fit into one answer."""
    rows = tx.all("SELECT entry FROM mesh_log WHERE mesh_id = ? AND n >= ? ORDER BY n LIMIT ?", mesh_id, start, limit)
    found: list[bytes] = []
    room = PAGE_BYTES_MAX
    for (entry,) in rows:
        room -= len(entry)
        if room < 0 and found:
            break
        found.append(bytes(entry))
    return found


def all_rows(tx: Tx, mesh_id: str, at_once: int = 500) -> Iterator[Row]:
    """All entries in the roster's order, some at a time: epoch, seq, n, author, kind, entry and hash."""
    start = 0
    while rows := tx.all(
        "SELECT epoch, seq, n, author, kind, entry, hash FROM mesh_log WHERE mesh_id = ? AND n >= ? ORDER BY n LIMIT ?",
        *(mesh_id, start, at_once),
    ):
        yield from rows
        start = rows[-1][2] + 1


def _row(kept: Kept, seq: int, step: Step, now_ms: int) -> Row:
    entry = step.entry
    return (kept.mesh_id, kept.epoch, seq, entry.n, entry.by, entry.kind, step.data, entry.hash, now_ms)


def _signed(state: State, seed: bytes) -> Head:
    return sign_head(state.n, state.head, fingerprint=state.fingerprint, seed=seed)


def _kept(row: Row) -> Kept:
    mesh_id, fingerprint, epoch, seq, n, digest, signature, restoring, told = row
    newest = None if told is None else msgspec.json.decode(told, type=Head)
    return Kept(mesh_id, fingerprint, epoch, seq, Head(n, digest, signature), bool(restoring), newest)
