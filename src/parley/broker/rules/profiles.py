"""Profiles: what members tell of themselves. They are sealed for the members, so a broker only keeps them."""

from typing import NamedTuple

from parley.broker.tx import Tx


class SealedProfile(NamedTuple):
    """A profile as it is kept."""

    visible: bool
    sealed: str | None
    key_epoch: int | None


def set_profile(tx: Tx, member_id: str, profile: SealedProfile) -> None:
    """The member's profile from now on."""
    tx.run(
        "INSERT INTO profile (member_id, visible, sealed, key_epoch, changed_ms) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (member_id) DO UPDATE SET visible = excluded.visible, sealed = excluded.sealed,"
        " key_epoch = excluded.key_epoch, changed_ms = excluded.changed_ms",
        *(member_id, int(profile.visible), profile.sealed, profile.key_epoch, tx.now_ms),
    )


def profiles(tx: Tx, mesh_id: str) -> dict[str, SealedProfile]:
    """The profiles of those members of the mesh who have one."""
    rows = tx.all(
        "SELECT p.member_id, p.visible, p.sealed, p.key_epoch FROM profile AS p"
        " JOIN member AS m ON m.member_id = p.member_id WHERE m.mesh_id = ?",
        mesh_id,
    )
    return {each: SealedProfile(bool(visible), sealed, epoch) for each, visible, sealed, epoch in rows}
