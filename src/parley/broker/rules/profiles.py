"""Profiles: what members tell of themselves. They are sealed for the members, so a broker only keeps them."""

from collections.abc import Sequence
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


def profiles(tx: Tx, member_ids: Sequence[str]) -> dict[str, SealedProfile]:
    """The profiles of those of these members who have one."""
    sql = "SELECT member_id, visible, sealed, key_epoch FROM profile WHERE member_id = ?"
    rows = [row for found in tx.each(sql, [(each,) for each in member_ids]) for row in found]
    return {each: SealedProfile(bool(visible), sealed, epoch) for each, visible, sealed, epoch in rows}
