"""Renewing: what the machine with the user key gives to whom it meets, and what is believed of what comes."""

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest

from parley.bus import NOTHING_REVOKED, Caveats, Chain, fingerprint_of, renewals, state
from parley.bus.chain import certify
from parley.bus.enrolment import Grant, issue_grant
from parley.bus.home import BusHome, key_pem, locked
from parley.bus.issued import Issued, keep_issued, read_issued
from parley.bus.link_frames import Renewal, encode_frame
from parley.bus.message import Request
from parley.bus.renewal import keep_renewal, renew_own, renew_peer
from parley.bus.standing import keep_grant, keep_revocations, load_standing
from parley.core.bus_errors import CertificateExpired, OtherUser, Revoked
from parley.core.clock import ManualClock
from parley.core.files import write_new
from parley.core.sealing import public_key
from tests.bus.agents import ADA, ADA_NAME, BOB, CAROL, DAY, HOLDS, NOW, STRANGER, USER
from tests.bus.world import Caller, World

REAL_TIME = True
TOPICS = msgspec.structs.replace(HOLDS, topics=("build",))
LATE = 61 * DAY
"""How long after it was issued a certificate of 90 days is due."""


@pytest.fixture
def clock() -> ManualClock:
    made = ManualClock()
    made.jump(NOW + LATE - made.now_ms())
    return made


def folder(root: Path, seed: bytes, *, user: bytes | None = None, caveats: Caveats = TOPICS) -> BusHome:
    """The folder of a machine that was let in when the tests begin."""
    home = BusHome(root)
    with locked(home):
        write_new(home.agent_key, key_pem(seed))
        if user is not None:
            write_new(home.user_key, key_pem(user))
        keep_grant(home, granted(seed, caveats))
    return home


@pytest.fixture
def laptop(tmp_path: Path) -> BusHome:
    """The machine with the user key."""
    return folder(tmp_path / "laptop", BOB, user=USER)


@pytest.fixture
def server(tmp_path: Path) -> BusHome:
    """Another one, which may use one topic."""
    return folder(tmp_path / "server", ADA)


def granted(seed: bytes = ADA, caveats: Caveats = TOPICS, user: bytes = USER, now_ms: int = NOW) -> Grant:
    return issue_grant(user, public_key(seed), role="builder", caveats=caveats, now_ms=now_ms)


def own(home: BusHome) -> Chain:
    grant = load_standing(home).grant
    assert grant is not None
    return grant.chain


def test_what_ends_soon_is_renewed_for_as_long_again_and_for_the_same(
    laptop: BusHome, server: BusHome, clock: ManualClock
) -> None:
    line = renew_peer(laptop, own(server), clock)
    assert line is not None
    assert keep_renewal(server, line, clock)
    renewed = own(server).last
    assert renewed.caveats == msgspec.structs.replace(TOPICS, expires_at_ms=NOW + LATE + 90 * DAY)
    assert renewed.role == "builder"
    (issued,) = read_issued(laptop)
    assert (issued.agent, issued.expires_at_ms) == (ADA_NAME.hex(), NOW + LATE + 90 * DAY)
    assert renew_peer(laptop, own(server), clock) is None, "it is not due any more"


def test_what_does_not_end_soon_is_left_alone(laptop: BusHome, server: BusHome, clock: ManualClock) -> None:
    clock.jump(-2 * DAY)
    assert renew_peer(laptop, own(server), clock) is None


def test_only_the_user_key_renews(server: BusHome, clock: ManualClock) -> None:
    assert renew_peer(server, own(server), clock) is None


def test_a_revoked_machine_gets_no_new_certificate(laptop: BusHome, server: BusHome, clock: ManualClock) -> None:
    statement = state(USER, NOTHING_REVOKED, [ADA_NAME], next_generation=False, now_ms=NOW)
    keep_revocations(laptop, NOTHING_REVOKED.merge(statement))
    with pytest.raises(Revoked):
        renew_peer(laptop, own(server), clock)


def test_a_machine_of_an_older_generation_gets_none(laptop: BusHome, server: BusHome, clock: ManualClock) -> None:
    statement = state(USER, NOTHING_REVOKED, next_generation=True, now_ms=NOW)
    keep_revocations(laptop, NOTHING_REVOKED.merge(statement))
    with pytest.raises(Revoked):
        renew_peer(laptop, own(server), clock)


def test_what_has_expired_gets_none(laptop: BusHome, server: BusHome, clock: ManualClock) -> None:
    clock.jump(30 * DAY)
    with pytest.raises(CertificateExpired):
        renew_peer(laptop, own(server), clock)


def test_another_users_machine_gets_none(laptop: BusHome, clock: ManualClock) -> None:
    with pytest.raises(OtherUser):
        renew_peer(laptop, granted(user=STRANGER).chain, clock)


def test_what_counts_calls_or_was_issued_by_an_agent_is_not_renewed(laptop: BusHome, clock: ManualClock) -> None:
    """The calls would be counted from the beginning, and the agent who let it in would have no say."""
    counts = granted(caveats=msgspec.structs.replace(TOPICS, calls_max=9)).chain
    assert renew_peer(laptop, counts, clock) is None
    parent = granted(CAROL).chain
    child = certify(CAROL, public_key(ADA), role="helper", caveats=TOPICS, now_ms=NOW, parent=parent)
    assert renew_peer(laptop, child, clock) is None
    assert renew_peer(laptop, parent, clock) is not None, "the control"


@pytest.mark.parametrize("renewal", [True, False])
def test_what_was_issued_to_end_ends(laptop: BusHome, server: BusHome, clock: ManualClock, renewal: bool) -> None:
    with locked(laptop):
        keep_issued(laptop, Issued(ADA_NAME.hex(), "office", "builder", NOW + 90 * DAY, renewal), NOW)
    assert (renew_peer(laptop, own(server), clock) is not None) is renewal


@pytest.mark.parametrize(
    "caveats",
    [
        TOPICS,
        msgspec.structs.replace(TOPICS, expires_at_ms=NOW + 89 * DAY),
        msgspec.structs.replace(HOLDS, expires_at_ms=NOW + 99 * DAY),
        msgspec.structs.replace(TOPICS, expires_at_ms=NOW + 99 * DAY, topics=("build", "deploy")),
        msgspec.structs.replace(TOPICS, expires_at_ms=NOW + 99 * DAY, calls_max=9),
        msgspec.structs.replace(TOPICS, expires_at_ms=None),
    ],
    ids=["no longer", "shorter", "all topics", "more topics", "fewer calls", "for ever"],
)
def test_a_grant_that_allows_anything_else_is_no_renewal(server: BusHome, clock: ManualClock, caveats: Caveats) -> None:
    """A peer could bring one that the user issued for another time."""
    before = own(server)
    assert not keep_renewal(server, granted(caveats=caveats).line(), clock)
    assert own(server) == before


def test_a_grant_for_another_machine_or_by_another_user_is_no_renewal(server: BusHome, clock: ManualClock) -> None:
    longer = msgspec.structs.replace(TOPICS, expires_at_ms=NOW + 99 * DAY)
    assert not keep_renewal(server, granted(BOB, longer).line(), clock)
    assert not keep_renewal(server, granted(ADA, longer, STRANGER).line(), clock)
    assert keep_renewal(server, granted(ADA, longer).line(), clock), "the control"


def test_the_machine_with_the_user_key_renews_itself(laptop: BusHome, server: BusHome, clock: ManualClock) -> None:
    assert renew_own(laptop, clock)
    assert own(laptop).last.caveats.expires_at_ms == NOW + LATE + 90 * DAY
    assert not renew_own(laptop, clock)
    assert not renew_own(server, clock)


@pytest.mark.parametrize("looks", ["when they meet", "every hour"])
async def test_on_the_bus_a_peer_is_given_a_new_certificate(
    world: World, monkeypatch: pytest.MonkeyPatch, looks: str
) -> None:
    """On a connection that lasts, at the hour after which it is due."""
    loop, kept = asyncio.get_running_loop(), asyncio.Event()
    lines: list[str] = []

    def keep(line: str) -> None:
        lines.append(line)
        loop.call_soon_threadsafe(kept.set)

    chain = granted(ADA).chain
    late = looks == "every hour"
    if late:
        monkeypatch.setattr(renewals, "_LOOK_SECONDS", 0.01)
    else:
        world.clock.jump(LATE)
    bob = await world.bus(BOB, renew=lambda asked: granted(ADA).line() if asked == chain else None)
    ada = await world.bus(ADA, chain=chain, keep_renewal=keep)
    await ada.connect(bob.fingerprint)
    if late:
        assert not lines
        world.clock.jump(LATE)
    async with asyncio.timeout(30):
        await kept.wait()
    assert lines[0] == granted(ADA).line()
    assert fingerprint_of(chain.agent_key) == ada.fingerprint


async def test_certificates_that_are_given_faster_than_they_are_kept_do_not_pile_up(world: World) -> None:
    """The last one counts."""
    loop, began, kept, may_keep = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event(), threading.Event()
    lines: list[str] = []

    def keep(line: str) -> None:
        loop.call_soon_threadsafe(began.set)
        may_keep.wait(30)
        lines.append(line)
        if line == "999":
            loop.call_soon_threadsafe(kept.set)

    async with asyncio.timeout(30):
        bob = await world.bus(BOB, keep_renewal=keep)
        ada = Caller(world, ADA)
        channel = await ada.meet(bob)
        await channel.send(encode_frame(Renewal("first")))
        await began.wait()
        for number in range(1_000):
            await channel.send(encode_frame(Renewal(str(number))))
        await ada.ask(channel, ada.envelope(bob, Request("nothing", b"", 1)))  # by then all of it was read
        may_keep.set()
        await kept.wait()
    assert lines == ["first", "999"]
