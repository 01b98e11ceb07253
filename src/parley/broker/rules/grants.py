"""What a member takes from another: all, a part, or nothing, which is a block."""

from collections.abc import Iterable

from parley.broker.rules.members import get_member, lock_mesh
from parley.broker.rules.recipients import CAPABILITIES
from parley.broker.tx import Tx
from parley.core.errors import InvalidInput


def grant(tx: Tx, mesh_id: str, member_id: str, peer_id: str, capabilities: Iterable[str]) -> list[str]:
    """The member takes only these from the peer. With all of them the row goes: that is how it was in the beginning."""
    chosen = sorted(set(capabilities))
    unknown = [each for each in chosen if each not in CAPABILITIES]
    if unknown:
        raise InvalidInput(f"There is no capability {unknown[0]}", field="capabilities", known=list(CAPABILITIES))
    lock_mesh(tx, mesh_id)
    get_member(tx, mesh_id, peer_id)
    if tuple(chosen) == CAPABILITIES:
        tx.run("DELETE FROM peer_grant WHERE member_id = ? AND peer_id = ?", member_id, peer_id)
    else:
        tx.run(
            "INSERT INTO peer_grant (member_id, peer_id, capabilities, changed_ms) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (member_id, peer_id) DO UPDATE SET capabilities = excluded.capabilities,"
            " changed_ms = excluded.changed_ms",
            *(member_id, peer_id, ",".join(chosen), tx.now_ms),
        )
    return chosen


def grants_of(tx: Tx, member_id: str) -> dict[str, list[str]]:
    """What the member takes from each peer that it does not take all from."""
    rows = tx.all("SELECT peer_id, capabilities FROM peer_grant WHERE member_id = ? ORDER BY peer_id", member_id)
    return {peer_id: [each for each in capabilities.split(",") if each] for peer_id, capabilities in rows}
