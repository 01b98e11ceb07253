"""The link: the handshake, what is lost and made again, and what is over for good."""

from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from parley.core.backoff import Backoff
from parley.core.clock import ManualClock
from parley.core.daemon_errors import FeatureRefused, MembershipLost
from parley.core.errors import ConfigInvalid
from parley.core.roster.heads import Head
from parley.daemon.effects import Agree, Connect, Disconnect, End, Tell
from parley.daemon.features import Judged, judge
from parley.daemon.link import ELSEWHERE_SECONDS, LinkSettings, Member
from parley.wire.broker import (
    Challenge,
    ErrorFrame,
    FeatureParams,
    Features,
    Hello,
    Negotiate,
    Ping,
    Pong,
    Problem,
    RosterWelcome,
    Welcome,
    hello_bytes,
)
from parley.wire.rosters import RosterHello, RosterStanding, roster_hello_bytes
from tests.daemon.machines import CHALLENGE, DEDUPE, FEATURES, MEMBER, WELCOME, Bench, frames


@pytest.fixture
def bench(outbox: apsw.Connection) -> Bench:
    return Bench(outbox)


def ending(bench: Bench) -> Exception | None:
    return next((effect.error for effect in bench.done if isinstance(effect, End)), None)


def test_the_handshake_leads_to_ready(bench: Bench) -> None:
    assert bench.run(bench.loop.start) == [Connect()]
    bench.run(bench.loop.on_connected)
    (hello,) = frames(bench.say(CHALLENGE))
    assert isinstance(hello, Hello)
    assert hello.signature == "01" * 64
    assert hello_bytes(nonce=CHALLENGE.nonce, broker_id="brk_1", hello=hello)
    (negotiate,) = frames(bench.say(WELCOME))
    assert isinstance(negotiate, Negotiate)
    assert "client_message_id_dedupe" in negotiate.require
    effects = bench.say(FEATURES)
    assert bench.loop.ready
    (agreed,) = [effect for effect in effects if isinstance(effect, Agree)]
    assert agreed.terms.max_age_ms == 648 * 3_600_000


def test_the_signature_is_over_the_nonce_the_broker_and_every_field_of_the_hello(bench: Bench) -> None:
    signed: list[bytes] = []
    bench.loop.link.member = MEMBER._replace(sign=lambda data: signed.append(data) or b"\2" * 64)
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_connected)
    (hello,) = frames(bench.say(CHALLENGE))
    assert isinstance(hello, Hello)
    assert signed == [hello_bytes(nonce=CHALLENGE.nonce, broker_id="brk_1", hello=hello)]


def test_a_first_connection_that_fails_is_made_again_and_then_works(bench: Bench) -> None:
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_closed, None, "connection refused")
    assert not bench.loop.ready
    assert bench.wait() == [Connect()]
    bench.connect()
    assert bench.loop.ready
    assert [type(frame).__name__ for frame in frames(bench.put("m-1"))] == ["Send"]


def test_waits_double_up_to_their_most_and_begin_anew_after_a_success(bench: Bench) -> None:
    waits: list[float] = []
    for _ in range(9):
        bench.run(bench.loop.start)
        bench.run(bench.loop.on_closed, None, "connection refused")
        assert bench.loop.deadline is not None
        waits.append(bench.loop.deadline - bench.clock.monotonic())
        bench.wait()
    assert waits == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 30, 30])
    bench.run(bench.loop.on_closed, None, "connection refused")
    bench.connect()
    bench.run(bench.loop.on_closed, 1001, "going away")
    assert bench.loop.deadline == pytest.approx(bench.clock.monotonic() + 0.5)


def test_a_wait_is_spread_so_that_many_do_not_come_back_at_once() -> None:
    assert [Backoff().wait_ms(1, lambda: 0.0), Backoff().wait_ms(1, lambda: 0.999)] == [375, 625]
    assert Backoff().wait_ms(10_000, lambda: 0.5) == 30_000


@pytest.mark.parametrize("steps", [0, 1, 2, 3], ids=["connecting", "challenged", "greeted", "negotiating"])
def test_a_broker_that_falls_silent_in_the_handshake_is_left(bench: Bench, steps: int) -> None:
    bench.run(bench.loop.start)
    for step in ([], [CHALLENGE], [CHALLENGE, WELCOME])[max(0, steps - 1)]:
        if bench.loop.link.state == "connecting":
            bench.run(bench.loop.on_connected)
        bench.say(step)
    if steps == 1:
        bench.run(bench.loop.on_connected)
    effects = bench.wait()
    assert [type(effect) for effect in effects][:1] == [Disconnect]
    assert bench.loop.link.state == "waiting"


def test_a_ready_link_pings_and_is_left_after_two_and_a_half_heartbeats_of_silence(bench: Bench) -> None:
    bench.connect()
    started = bench.clock.monotonic()
    assert [type(frame) for frame in frames(bench.wait())] == [Ping]
    bench.say(Pong(1))
    assert [type(frame) for frame in frames(bench.wait())] == [Ping]
    heard = bench.clock.monotonic()
    while bench.loop.ready:
        bench.wait()
    assert bench.clock.monotonic() - started >= 75
    assert bench.clock.monotonic() - heard < 75
    assert bench.loop.link.state == "waiting"


def test_a_ping_is_answered_in_any_state(bench: Bench) -> None:
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_connected)
    assert frames(bench.say(Ping(7))) == [Pong(7)]


@pytest.mark.parametrize("code", [4001, 4002, 4003, 4401])
def test_some_endings_are_final_so_that_two_hosts_do_not_push_each_other_out_for_ever(bench: Bench, code: int) -> None:
    bench.connect()
    bench.say(ErrorFrame(Problem("MEMBERSHIP_ENDED", "banned", 403, False), code))
    bench.run(bench.loop.on_closed, code, "over")
    error = ending(bench)
    assert isinstance(error, MembershipLost)
    assert error.details["broker_code"] == "MEMBERSHIP_ENDED"
    assert bench.loop.deadline is None
    assert bench.run(bench.loop.start) == []
    assert int(error.exit_code) == 29
    assert ("new invite" in error.hint) is (code != 4001)


def test_a_member_that_seems_to_be_connected_elsewhere_waits_for_its_own_ghost_and_then_gives_up(bench: Bench) -> None:
    started = bench.clock.monotonic()
    bench.run(bench.loop.start)
    while ending(bench) is None:
        bench.run(bench.loop.on_closed, 4004, "already connected")
        if ending(bench) is None:
            bench.wait()
    assert isinstance(ending(bench), MembershipLost)
    assert bench.clock.monotonic() - started >= ELSEWHERE_SECONDS


def test_a_connection_that_its_own_ghost_replaced_is_made_again_once(bench: Bench) -> None:
    """The hello of a connection that was given up arrives at the broker after that of the next one."""
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_connected)
    bench.say(CHALLENGE)
    bench.wait()  # no answer to the hello: given up
    bench.wait()
    bench.connect()
    bench.run(bench.loop.on_closed, 4003, "replaced")
    assert ending(bench) is None
    bench.wait()
    bench.connect()
    bench.run(bench.loop.on_closed, 4003, "replaced")
    assert isinstance(ending(bench), MembershipLost)


@pytest.mark.parametrize("code", [None, 1000, 1001, 1006, 1008, 1011, 1012])
def test_other_endings_are_not_final(bench: Bench, code: int | None) -> None:
    bench.connect()
    bench.run(bench.loop.on_closed, code, "lost")
    assert bench.loop.link.state == "waiting"
    assert ending(bench) is None


def offered(**dedupe: Any) -> Features:
    params = {key: value for key, value in {**DEDUPE, **dedupe}.items() if value is not None}
    return replace(FEATURES, supported={**FEATURES.supported, "client_message_id_dedupe": FeatureParams(params)})


@pytest.mark.parametrize(
    ("features", "code"),
    [
        (Features({}), 4010),
        (Features({"client_message_id_dedupe": FeatureParams(DEDUPE)}), 4010),
        (replace(FEATURES, missing_required=["client_message_id_dedupe"]), 4010),
        (offered(version=1), 4011),
        (offered(version=None), 4011),
        (offered(mode="sometimes"), 4011),
        (offered(request_fingerprint=False), 4011),
        (offered(dedupe_retention_days=None), 4011),
        (offered(dedupe_retention_days="30"), 4011),
        (offered(dedupe_retention_days=True), 4011),
        (offered(dedupe_retention_days=6), 4012),
        (replace(FEATURES, supported={**FEATURES.supported, "concurrent_connection_policy": FeatureParams({})}), 4011),
    ],
)
def test_a_broker_that_is_not_safe_is_refused_with_its_code(bench: Bench, features: Features, code: int) -> None:
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_connected)
    bench.say(CHALLENGE)
    bench.say(WELCOME)
    effects = bench.say(features)
    (closed,) = [effect for effect in effects if isinstance(effect, Disconnect)]
    assert closed.code == code
    (explained,) = frames(effects)
    assert isinstance(explained, ErrorFrame)
    assert explained.close_code == code
    assert explained.problem.details["feature"] in ("client_message_id_dedupe", "concurrent_connection_policy")
    error = ending(bench)
    assert isinstance(error, FeatureRefused)
    assert (int(error.exit_code), error.details["close_code"]) == (28, code)
    assert any(isinstance(effect, Tell) and effect.kind == "feature_negotiation_failed" for effect in effects)


def test_a_broker_that_refuses_our_needs_itself_is_final_too(bench: Bench) -> None:
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_connected)
    bench.run(bench.loop.on_closed, 4010, "feature_unavailable")
    assert isinstance(ending(bench), FeatureRefused)


def test_optional_features_that_make_no_sense_are_left_out() -> None:
    extra = {
        "max_payload": FeatureParams({"version": 1, "inline_bytes": 10, "blob_bytes": 4096}),
        "key_epoch": FeatureParams({"version": 1, "max_concurrent_epochs": 0}),
        "member_keypair_rotated_event": FeatureParams({"version": 1}),
    }
    verdict = judge(replace(FEATURES, supported={**FEATURES.supported, **extra}), WELCOME, None)
    assert isinstance(verdict, Judged)
    assert set(verdict.ignored) == {"max_payload", "key_epoch"}
    assert "member_keypair_rotated_event" in verdict.active
    assert verdict.terms.inline_bytes_max == 65_536


def test_the_smaller_of_two_announced_sizes_counts() -> None:
    extra = {"max_payload": FeatureParams({"version": 1, "inline_bytes": 2048, "blob_bytes": 4096})}
    verdict = judge(replace(FEATURES, supported={**FEATURES.supported, **extra}), WELCOME, None)
    assert isinstance(verdict, Judged)
    assert verdict.terms.inline_bytes_max == 2048


def test_a_broker_that_forgets_nothing_needs_no_days() -> None:
    verdict = judge(offered(mode="permanent", dedupe_retention_days=None), WELCOME, None)
    assert isinstance(verdict, Judged)
    assert verdict.terms.max_age_ms == 168 * 3_600_000


def test_an_override_that_the_window_does_not_allow_ends_the_mesh(outbox: apsw.Connection) -> None:
    bench = Bench(outbox, LinkSettings(max_age_hours_override=720))
    bench.connect()
    assert isinstance(ending(bench), ConfigInvalid)


def test_another_protocol_is_refused(bench: Bench) -> None:
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_connected)
    bench.say(Challenge("9" * 64, "brk_1", protocol=2))
    assert isinstance(ending(bench), FeatureRefused)


def test_a_frame_of_the_handshake_out_of_turn_loses_the_connection(bench: Bench) -> None:
    bench.connect()
    bench.say(WELCOME)
    assert bench.loop.link.state == "waiting"


def test_stopping_closes_in_peace_and_for_good(bench: Bench) -> None:
    bench.connect()
    assert [effect.code for effect in bench.run(bench.loop.stop) if isinstance(effect, Disconnect)] == [1000]
    assert bench.run(bench.loop.start) == []
    assert bench.loop.deadline is None
    assert isinstance(bench.clock, ManualClock)


HEAD = Head(7, "ab" * 32, "cd" * 64)
ROSTERED = MEMBER._replace(fingerprint="ef" * 32, head=lambda: HEAD)
STANDING = RosterStanding(ROSTERED.fingerprint, HEAD)
ROSTER_WELCOME = RosterWelcome(**{name: getattr(WELCOME, name) for name in WELCOME.__struct_fields__}, roster=STANDING)


def test_in_a_mesh_with_a_roster_the_hello_names_it_and_how_far_it_was_read(bench: Bench) -> None:
    signed: list[bytes] = []
    bench.loop.link.member = ROSTERED._replace(sign=lambda data: signed.append(data) or b"\2" * 64)
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_connected)
    newest = replace(CHALLENGE, newest=2)
    (hello,) = frames(bench.say(newest))
    assert isinstance(hello, RosterHello)
    assert (hello.fingerprint, hello.head, hello.member_id) == (ROSTERED.fingerprint, HEAD, "mem_alice")
    assert signed == [roster_hello_bytes(nonce=newest.nonce, broker_id="brk_1", hello=hello)]
    bench.say(ROSTER_WELCOME)
    bench.say(FEATURES)
    assert bench.loop.ready
    assert isinstance(bench.loop.link.welcome, RosterWelcome)


def test_a_broker_that_knows_no_rosters_is_told_of_as_too_old(bench: Bench) -> None:
    bench.loop.link.member = ROSTERED
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_connected)
    assert frames(bench.say(CHALLENGE)) == []
    assert isinstance(ending(bench), FeatureRefused)


@pytest.mark.parametrize(("member", "welcome"), [(ROSTERED, WELCOME), (MEMBER, ROSTER_WELCOME)])
def test_a_welcome_of_the_other_version_is_no_answer(bench: Bench, member: Member, welcome: Welcome) -> None:
    bench.loop.link.member = member
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_connected)
    bench.say(replace(CHALLENGE, newest=2))
    assert frames(bench.say(welcome)) == []
    assert not bench.loop.ready
    assert bench.loop.link.state == "waiting"


def test_a_daemon_that_is_too_old_for_a_mesh_stays_away(bench: Bench) -> None:
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_connected)
    bench.say(CHALLENGE)
    bench.run(bench.loop.on_closed, 4013, "UPGRADE_NEEDED")
    assert isinstance(ending(bench), FeatureRefused)
