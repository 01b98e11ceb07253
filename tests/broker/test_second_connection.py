"""A member that comes with a second connection: the same daemon again, another one, or what a dead broker left."""

import pytest

from parley.wire.broker import ErrorFrame
from tests.broker.desk import Desk, signed_hello


def test_the_same_daemon_replaces_its_own_connection(desk: Desk) -> None:
    first = desk.ready(desk.bob, "i1")
    second = desk.ready(desk.bob, "i1")
    assert (first.closed, first.last(ErrorFrame).problem.code) == (4003, "CONNECTION_REPLACED")
    assert second.closed is None


@pytest.mark.parametrize("instance", ["i1", "i0"])
def test_a_hello_that_was_long_on_its_way_does_not_push_out_a_newer_connection(desk: Desk, instance: str) -> None:
    """Of a connection that the daemon gave up, or of the process that was there before it."""
    old = desk.connect()
    desk.clock.advance(1)
    new = desk.ready(desk.bob, "i1")
    desk.clock.advance(1)
    old.say(signed_hello(desk.bob, old.challenge, instance))
    assert (old.closed, new.closed) == (4004, None)


def test_a_clock_that_was_set_back_keeps_nobody_out(desk: Desk) -> None:
    desk.ready(desk.bob, "i1")
    desk.clock.jump(-3_600_000)
    assert desk.ready(desk.bob, "i1").closed is None


@pytest.mark.parametrize(
    ("policy", "first_ends", "second_ends"),
    [("prefer_newest", 4003, None), ("prefer_oldest", None, 4004), ("allow_concurrent", None, None)],
)
def test_a_second_daemon_of_a_member_is_treated_as_the_mesh_wants(
    desk: Desk, policy: str, first_ends: int | None, second_ends: int | None
) -> None:
    desk.store.call(lambda tx: tx.run("UPDATE mesh SET connection_policy = ?", policy))
    first = desk.ready(desk.bob, "i1")
    second = desk.connect()
    second.say(signed_hello(desk.bob, second.challenge, "i2"))
    assert (first.closed, second.closed) == (first_ends, second_ends)
    rows = desk.store.call(lambda tx: tx.all("SELECT event, actor FROM audit"))
    assert rows == [("member_concurrent_connection", desk.bob.member_id)]


def test_a_second_daemon_that_comes_again_and_again_does_not_fill_the_audit_log(desk: Desk) -> None:
    desk.store.call(lambda tx: tx.run("UPDATE mesh SET connection_policy = 'prefer_oldest'"))
    desk.ready(desk.bob, "i1")
    for number in range(5):
        line = desk.connect()
        line.say(signed_hello(desk.bob, line.challenge, f"other {number}"))
        assert line.closed == 4004
    assert len(desk.store.call(lambda tx: tx.all("SELECT number FROM audit"))) == 1


def test_a_connection_that_a_dead_broker_left_behind_keeps_nobody_out(desk: Desk) -> None:
    desk.store.call(lambda tx: tx.run("UPDATE mesh SET connection_policy = 'prefer_oldest'"))
    desk.ready(desk.bob, "i1")
    desk.clock.advance(76)
    assert desk.ready(desk.bob, "i2").closed is None
