"""What becomes of rosters when a backup is restored: nothing that was decided since is to be undone by it.

A backup may lack entries that members have seen. Until an owner has brought back what it knows of them and has said
where the mesh goes on, nothing new is appended; else a number would be given twice, and who was removed would be a
member again. Members tell by their hellos how far the roster went, and the broker knows its own signature.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from parley.broker.done import Done
from parley.broker.rules.broker_key import broker_seed
from parley.broker.rules.roster_append import as_bytes, judged, taken
from parley.broker.rules.roster_log import Kept, get_roster, page
from parley.broker.rules.roster_state import current_state, write_snapshot
from parley.broker.tx import Tx
from parley.core.broker_errors import RosterRefused
from parley.core.errors import InternalError
from parley.core.limits import PAGE_LIMIT_MAX
from parley.core.roster import follow
from parley.core.roster.heads import Head, sign_head


def mark_restored(tx: Tx) -> None:
    """From now on every roster waits for an owner.

    A backup has no snapshots. They are made here, where there is time, so that no append has to go through all entries.
    """
    tx.run("UPDATE roster SET restoring = 1, told = NULL")
    tx.run("DELETE FROM roster_turn")
    for mesh_id, fingerprint, digest in tx.all("SELECT mesh_id, fingerprint, hash FROM roster"):
        with suppress(InternalError):  # what was damaged when it was backed up is restored as it was; a check finds it
            write_snapshot(tx, mesh_id, current_state(tx, mesh_id, fingerprint, digest))


def note_told(tx: Tx, kept: Kept, head: Head) -> Kept:
    """Remembers a head of the lost part, if this broker signed it and nobody has come with a newer one."""
    newest = kept.n if kept.told is None else kept.told.n
    if not kept.restoring or head.n <= newest:
        return kept
    if head != sign_head(head.n, head.hash, fingerprint=kept.fingerprint, seed=broker_seed(tx)):
        return kept
    tx.run("UPDATE roster SET told = ? WHERE mesh_id = ?", msgspec.json.encode(head).decode(), kept.mesh_id)
    return kept._replace(told=head)


def confirm(tx: Tx, mesh_id: str, after: int, texts: Sequence[str], confirmed: str | None) -> Done:
    """Takes a part of what was lost, whoever wrote it and whenever; with ``confirmed`` the mesh goes on after it.

    A mesh that waits for nothing is answered as it is.
    """
    kept, entries = get_roster(tx, mesh_id), as_bytes(texts)
    if not kept.restoring:
        return _answer(kept, ())
    if after > kept.n:
        raise RosterRefused(f"The broker's roster ends at {kept.n}", reason="ahead", n=kept.n)
    if after < kept.n:
        return _answer(kept, [each.decode() for each in page(tx, mesh_id, after + 1, PAGE_LIMIT_MAX)])
    done = Done({}, mesh_id=mesh_id)
    if entries:
        state = current_state(tx, mesh_id, kept.fingerprint, kept.head.hash)
        done = taken(tx, kept, state, judged(follow(state, entries)))
    if confirmed is not None:
        _go_on(tx, get_roster(tx, mesh_id), confirmed)
    return done._replace(result=_answer(get_roster(tx, mesh_id), ()).result)


def _go_on(tx: Tx, kept: Kept, confirmed: str) -> None:
    """Begins the next epoch where the order is known to end."""
    if kept.head.hash != confirmed:
        raise RosterRefused("The roster does not end at the head that is to be confirmed", reason="wrong_head")
    tx.run(
        "UPDATE roster SET restoring = 0, told = NULL, epoch = epoch + 1, epoch_follows = seq WHERE mesh_id = ?",
        kept.mesh_id,
    )


def _answer(kept: Kept, missing: Sequence[str]) -> Done:
    head = msgspec.to_builtins(kept.head)
    result = {"head": head, "restoring": kept.restoring, "missing": list(missing)}
    return Done(result, mesh_id=kept.mesh_id)
