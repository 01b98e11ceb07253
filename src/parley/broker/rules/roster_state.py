"""What a roster adds up to, without going through all of it each time.

A state follows from its entries alone, and the hash of the newest one stands for all of them. So the last one is kept
in memory, where that hash tells whether it is still good, and a snapshot in the database keeps a start from judging
every entry again.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from parley.broker.tx import Tx
from parley.core.errors import InternalError
from parley.core.roster import Refusal, State, Step, apply

SNAPSHOT_ENTRIES: Final = 128
"""A snapshot is written when so many entries more are there: a start judges fewer than that."""
_STATES_MAX: Final = 64
"""States in memory: that of a mesh with a thousand members takes about a megabyte."""
_AT_ONCE: Final = 500


class _Memory:
    """The newest state of each roster. Several threads may ask."""

    def __init__(self) -> None:
        self._states: OrderedDict[str, State] = OrderedDict()
        self._lock = threading.Lock()

    def recall(self, fingerprint: str) -> State | None:
        with self._lock:
            state = self._states.get(fingerprint)
            if state is not None:
                self._states.move_to_end(fingerprint)
            return state

    def keep(self, state: State) -> None:
        with self._lock:
            self._states[state.fingerprint] = state
            self._states.move_to_end(state.fingerprint)
            if len(self._states) > _STATES_MAX:
                self._states.popitem(last=False)


_memory: Final = _Memory()


def current_state(tx: Tx, mesh_id: str, fingerprint: str, head: str) -> State:
    """The state of the roster whose newest entry has this hash."""
    for known in (_memory.recall(fingerprint), snapshot_of(tx, mesh_id), None):
        if known is not None and known.head != head and not _stands(tx, mesh_id, known):
            continue  # of a transaction that was not committed, or of a snapshot that was tampered with
        state = _caught_up(tx, mesh_id, known)
        if state is not None and state.head == head:
            _memory.keep(state)
            return state
    raise InternalError("The entries of a roster do not add up to its head; run `parley broker check`")


def keep_snapshot(tx: Tx, mesh_id: str, steps: Sequence[Step]) -> None:
    """Remembers the state after the entries, and writes a snapshot now and then."""
    state = steps[-1].state
    _memory.keep(state)
    if state.n // SNAPSHOT_ENTRIES > (steps[0].state.n - 1) // SNAPSHOT_ENTRIES:
        write_snapshot(tx, mesh_id, state)


def write_snapshot(tx: Tx, mesh_id: str, state: State) -> None:
    """Puts it in the place of the one before."""
    tx.run(
        "INSERT INTO roster_snapshot (mesh_id, n, state) VALUES (?, ?, ?)"
        " ON CONFLICT (mesh_id) DO UPDATE SET n = excluded.n, state = excluded.state",
        *(mesh_id, state.n, msgspec.json.encode(state)),
    )


def snapshot_of(tx: Tx, mesh_id: str) -> State | None:
    """What was written; None where nothing was, or nothing that can be read."""
    row = tx.one("SELECT state FROM roster_snapshot WHERE mesh_id = ?", mesh_id)
    try:
        return None if row is None else msgspec.json.decode(bytes(row[0]), type=State)
    except msgspec.DecodeError:
        return None


def _stands(tx: Tx, mesh_id: str, state: State) -> bool:
    return tx.one("SELECT hash FROM mesh_log WHERE mesh_id = ? AND n = ?", mesh_id, state.n) == (state.head,)


def _caught_up(tx: Tx, mesh_id: str, state: State | None) -> State | None:
    """The state after all entries that follow it; None when they do not."""
    while True:
        start = 0 if state is None else state.n + 1
        rows = tx.all(
            "SELECT entry FROM mesh_log WHERE mesh_id = ? AND n >= ? ORDER BY n LIMIT ?", mesh_id, start, _AT_ONCE
        )
        if not rows:
            return state
        for (data,) in rows:
            after = apply(state, bytes(data))
            if isinstance(after, Refusal):
                return None
            state = after
