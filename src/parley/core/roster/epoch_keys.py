"""The keys of an epoch: made by an admin, committed to in the roster, and handed from member to member.

Two keys have one life. Under the *mesh key* messages are sealed, under the *data key* what the mesh keeps. An entry
``key`` commits to both, so it does not matter who hands them on: what does not fit is thrown away. It also carries the
newest data key that its author had, locked under the new one, so that a joiner can go back through the data's history.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from parley.core import sealing
from parley.core.roster.entries import Key, Previous, commitment
from parley.core.roster.state import State
from parley.core.sealing import Random

_HANDED: Final = "parley roster keys 1"
_PREVIOUS: Final = "parley roster data key 1"


class EpochKeys(msgspec.Struct, frozen=True):
    """Both keys of an epoch. ``mesh`` is empty where only the data key came down through the chain."""

    epoch: int
    mesh: bytes
    data: bytes


def new_keys(state: State, random: Random) -> EpochKeys:
    """Keys for the epoch that follows."""
    return EpochKeys(state.epoch + 1, random(sealing.KEY_BYTES), random(sealing.KEY_BYTES))


def fits(state: State, keys: EpochKeys) -> bool:
    """Whether these are the keys that the roster commits to for their epoch."""
    made = state.epochs.get(keys.epoch)
    if made is None or made.data != commitment(keys.data, "data", keys.epoch, state.fingerprint):
        return False
    return not keys.mesh or made.mesh == commitment(keys.mesh, "mesh", keys.epoch, state.fingerprint)


def key_body(state: State, keys: EpochKeys, before: EpochKeys | None, random: Random) -> Key:
    """What the entry says that begins the epoch. ``before`` is the newest that its author holds."""
    previous = None
    if before is not None:
        under = sealing.derive_key(keys.data, _PREVIOUS, state.fingerprint, before.epoch, keys.epoch)
        previous = Previous(before.epoch, sealing.lock(before.data, under, random).hex())
    return Key(
        keys.epoch,
        commitment(keys.mesh, "mesh", keys.epoch, state.fingerprint),
        commitment(keys.data, "data", keys.epoch, state.fingerprint),
        previous,
    )


def data_key_before(state: State, keys: EpochKeys) -> EpochKeys | None:
    """The data key that the epoch's entry carries, without a mesh key; None where it carries none that fits."""
    made = state.epochs.get(keys.epoch)
    if made is None or made.previous is None:
        return None
    under = sealing.derive_key(keys.data, _PREVIOUS, state.fingerprint, made.previous.epoch, keys.epoch)
    data = sealing.unlock(bytes.fromhex(made.previous.sealed), under)
    if data is None:
        return None
    found = EpochKeys(made.previous.epoch, b"", data)
    return found if fits(state, found) else None


def hand(keys: EpochKeys, *, fingerprint: str, giver_seed: bytes, recipient: bytes, random: Random) -> bytes:
    """Both keys, sealed to a member. Raises ``InvalidInput`` for a key that nothing can be sealed to."""
    giver = sealing.public_key(giver_seed).hex()
    return sealing.box(keys.mesh + keys.data, _bound(fingerprint, keys.epoch, giver), giver_seed, recipient, random)


def take(sealed: bytes, epoch: int, *, fingerprint: str, giver: bytes, recipient_seed: bytes) -> EpochKeys | None:
    """What was sealed. Whether it fits, the roster tells."""
    both = sealing.unbox(sealed, _bound(fingerprint, epoch, giver.hex()), recipient_seed, giver)
    if both is None or len(both) != 2 * sealing.KEY_BYTES:
        return None
    return EpochKeys(epoch, both[: sealing.KEY_BYTES], both[sealing.KEY_BYTES :])


def with_keys(known: list[EpochKeys], new: EpochKeys) -> list[EpochKeys]:
    """The list with one more; a mesh key joins the data key that was there before it."""
    others: list[EpochKeys] = []
    for each in known:
        if each.epoch != new.epoch or each.data != new.data:
            others.append(each)
        elif not new.mesh:
            new = replace(new, mesh=each.mesh)
    return sorted([*others, new], key=lambda each: (each.epoch, each.data))


def _bound(fingerprint: str, epoch: int, giver: str) -> bytes:
    return sealing.bound_to(_HANDED, (fingerprint, epoch, giver))
