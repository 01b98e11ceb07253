"""A bus of the agent whose keys are in a folder, which keeps there what it learns to be revoked."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from parley.bus import Fingerprint, Revocations, fingerprint_of, state
from parley.bus.caveats import Caveats
from parley.bus.enrolment import issue_grant
from parley.bus.home import BusHome, locked, make_key, read_key
from parley.bus.revocation import NOTHING_REVOKED
from parley.bus.standing import add_revocations, identity_of, keep_grant, load_standing
from parley.core.bus_errors import NoIdentity
from parley.core.sealing import public_key
from tests.bus.agents import ADA, BOB, CAROL, NOW, USER, USER_NAME
from tests.bus.world import World, name_of

REAL_TIME = True


@pytest.fixture
def home(tmp_path: Path) -> BusHome:
    """The folder of a machine that was let in."""
    made = BusHome(tmp_path / "bus")
    with locked(made):
        make_key(made.agent_key)
    seed = read_key(made.agent_key)
    assert seed is not None
    keep_grant(made, issue_grant(USER, public_key(seed), role="agent", caveats=Caveats(), now_ms=NOW))
    return made


def revoking(*names: Fingerprint, known: Revocations = NOTHING_REVOKED) -> Revocations:
    return known.merge(state(USER, known, names, next_generation=False, now_ms=NOW))


def test_a_machine_that_was_not_let_in_is_nobody_on_the_bus(home: BusHome) -> None:
    home.grant.unlink()
    with pytest.raises(NoIdentity):
        identity_of(load_standing(home))


async def test_what_a_peer_tells_is_revoked_is_written_beside_the_keys(home: BusHome, world: World) -> None:
    identity = identity_of(load_standing(home))
    kept = asyncio.Event()
    loop = asyncio.get_running_loop()

    def keep(learned: Revocations) -> None:
        add_revocations(home, learned)
        loop.call_soon_threadsafe(kept.set)

    bus = await world.bus(identity.seed, chain=identity.chain, keep_revocations=keep)
    told = await world.bus(BOB, revocations=revoking(name_of(ADA)))
    await told.connect(bus.fingerprint)
    await kept.wait()
    standing = load_standing(home)
    assert standing.user == USER_NAME
    assert standing.revocations == revoking(name_of(ADA))
    assert identity_of(standing).revocations.revoked == {name_of(ADA)}
    assert bus.fingerprint == fingerprint_of(public_key(identity.seed))


def test_what_a_command_has_written_meanwhile_is_not_lost(home: BusHome) -> None:
    first = revoking(name_of(ADA))
    add_revocations(home, first)
    before = home.revocations.stat().st_mtime_ns
    add_revocations(home, first)
    assert home.revocations.stat().st_mtime_ns == before
    add_revocations(home, revoking(name_of(CAROL)))
    assert load_standing(home).revocations.revoked == {name_of(ADA), name_of(CAROL)}


async def test_a_folder_that_cannot_be_written_leaves_the_bus_running(
    home: BusHome, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    bus = await world.bus(ADA, keep_revocations=partial(add_revocations, BusHome(home.grant)))
    assert await bus.learn([each.encode() for each in revoking(name_of(CAROL)).statements])
    await bus.close()
    assert "cannot be written down" in caplog.text
    assert bus.revocations.revoked == {name_of(CAROL)}
