"""The audit log of a mesh: who did what to whom, as a chain in which each entry's hash covers the one before it.

What was said is not in it, only what was changed: members, roles, invites, keys. A row that is altered, left out or put
in breaks the chain from there on, and ``verify`` names the first number that does not fit. The mesh's row tells where
the chain ends. Whoever can write to the database can make all of it anew; against that helps only a hash that somebody
kept elsewhere.
"""

from typing import Any, Final

from parley.broker.tx import Row, Tx
from parley.core.canonical import canonical_json
from parley.core.hash_chain import GENESIS, Entry, entry_hash, first_misfit

_COLUMNS: Final = "number, at_ms, event, actor, payload, previous, hash"


def record(tx: Tx, mesh_id: str, event: str, actor: str, **payload: Any) -> None:
    """Appends an entry. The mesh's row is locked by the caller, so that no two follow the same one."""
    last = tx.one("SELECT number, hash FROM audit WHERE mesh_id = ? ORDER BY number DESC LIMIT 1", mesh_id)
    number, previous = (last[0] + 1, last[1]) if last is not None else (1, GENESIS)
    text = canonical_json(payload).decode()
    entry = (number, tx.now_ms, event, actor, text, previous)
    own_hash = entry_hash(mesh_id, *entry)
    tx.run(f"INSERT INTO audit (mesh_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *(mesh_id, *entry, own_hash))
    tx.run("UPDATE mesh SET audit_number = ?, audit_hash = ? WHERE mesh_id = ?", number, own_hash, mesh_id)


def verify(tx: Tx, mesh_id: str) -> int | None:
    """The number of the first entry that does not fit or is missing, or None when all do."""
    rows = tx.all(f"SELECT {_COLUMNS} FROM audit WHERE mesh_id = ? ORDER BY number", mesh_id)
    misfit = first_misfit(mesh_id, (Entry(*row) for row in rows))
    if misfit is not None:
        return misfit
    end = tx.one("SELECT audit_number, audit_hash FROM mesh WHERE mesh_id = ?", mesh_id)
    last = (rows[-1][0], rows[-1][-1]) if rows else (0, "")
    return None if end is None or last == tuple(end) else last[0] + 1


def entries(tx: Tx, mesh_id: str, after: int, limit: int) -> list[Row]:
    """The entries after a number, in order."""
    return tx.all(
        f"SELECT {_COLUMNS} FROM audit WHERE mesh_id = ? AND number > ? ORDER BY number LIMIT ?", mesh_id, after, limit
    )
