"""Whether all that is kept of a roster follows from its entries: judged again from the first one on."""

from parley.broker.rules.broker_key import broker_seed
from parley.broker.rules.roster_log import Kept, all_rows, find_roster
from parley.broker.rules.roster_members import differing_member
from parley.broker.rules.roster_state import snapshot_of
from parley.broker.tx import Tx
from parley.core.roster import Refusal, State, apply, read_entry, state_hash
from parley.core.roster.heads import sign_head


def first_misfit(tx: Tx, mesh_id: str) -> int | None:
    """The number of the first entry that does not fit, or after which something made of them does not; else None.

    Also None for a mesh without a roster.
    """
    kept = find_roster(tx, mesh_id)
    if kept is None:
        return None
    snapshot = snapshot_of(tx, mesh_id)
    state: State | None = None
    place = (0, 0)
    for epoch, seq, n, author, kind, data, digest in all_rows(tx, mesh_id):
        expected = 0 if state is None else state.n + 1
        after = apply(state, bytes(data))
        if isinstance(after, Refusal) or (n, digest) != (after.n, after.head) or not place < (epoch, seq):
            return expected
        if not _is_told_rightly(bytes(data), author, kind):
            return expected
        if snapshot is not None and snapshot.n == n and state_hash(snapshot) != state_hash(after):
            return expected
        state, place = after, (epoch, seq)
    return _misfit_at_the_end(tx, kept, state, place, snapshot)


def _misfit_at_the_end(
    tx: Tx, kept: Kept, state: State | None, place: tuple[int, int], snapshot: State | None
) -> int | None:
    if state is None or state.fingerprint != kept.fingerprint:
        return 0
    head = sign_head(state.n, state.head, fingerprint=state.fingerprint, seed=broker_seed(tx))
    if head != kept.head or place[1] > kept.seq or place[0] > kept.epoch:
        return state.n + 1
    if snapshot is not None and snapshot.n > state.n:
        return state.n + 1
    return None if differing_member(tx, kept.mesh_id, state) is None else state.n


def _is_told_rightly(data: bytes, author: str, kind: str) -> bool:
    entry = read_entry(data)
    return (entry.by, entry.kind) == (author, kind)
