"""A member that comes with a second connection: the same daemon again, another one, or what a dead broker left."""

import pytest

from parley.wire.broker import ErrorFrame
from tests.broker.driven_mesh import DrivenMesh, signed_hello


def test_the_same_daemon_replaces_its_own_connection(driven: DrivenMesh) -> None:
    first = driven.ready(driven.bob, "i1")
    second = driven.ready(driven.bob, "i1")
    assert (first.closed, first.last(ErrorFrame).problem.code) == (4003, "CONNECTION_REPLACED")
    assert second.closed is None


@pytest.mark.parametrize("instance", ["i1", "i0"])
def test_a_hello_that_was_long_on_its_way_does_not_push_out_a_newer_connection(
    driven: DrivenMesh, instance: str
) -> None:
    """Of a connection that the daemon gave up, or of the process that was there before it."""
    old = driven.connect()
    driven.clock.advance(1)
    new = driven.ready(driven.bob, "i1")
    driven.clock.advance(1)
    old.say(signed_hello(driven.bob, old.challenge, instance))
    assert (old.closed, new.closed) == (4004, None)


def test_a_clock_that_was_set_back_keeps_nobody_out(driven: DrivenMesh) -> None:
    driven.ready(driven.bob, "i1")
    driven.clock.jump(-3_600_000)
    assert driven.ready(driven.bob, "i1").closed is None


@pytest.mark.parametrize(
    ("policy", "first_ends", "second_ends"),
    [("prefer_newest", 4003, None), ("prefer_oldest", None, 4004), ("allow_concurrent", None, None)],
)
def test_a_second_daemon_of_a_member_is_treated_as_the_mesh_wants(
    driven: DrivenMesh, policy: str, first_ends: int | None, second_ends: int | None
) -> None:
    driven.store.call(lambda tx: tx.run("UPDATE mesh SET connection_policy = ?", policy))
    first = driven.ready(driven.bob, "i1")
    second = driven.connect()
    second.say(signed_hello(driven.bob, second.challenge, "i2"))
    assert (first.closed, second.closed) == (first_ends, second_ends)
    rows = driven.store.call(lambda tx: tx.all("SELECT event, actor FROM audit"))
    assert rows == [("member_concurrent_connection", driven.bob.member_id)]


def test_a_second_daemon_that_comes_again_and_again_does_not_fill_the_audit_log(driven: DrivenMesh) -> None:
    driven.store.call(lambda tx: tx.run("UPDATE mesh SET connection_policy = 'prefer_oldest'"))
    driven.ready(driven.bob, "i1")
    for number in range(5):
        line = driven.connect()
        line.say(signed_hello(driven.bob, line.challenge, f"other {number}"))
        assert line.closed == 4004
    assert len(driven.store.call(lambda tx: tx.all("SELECT number FROM audit"))) == 1


def test_a_connection_that_a_dead_broker_left_behind_keeps_nobody_out(driven: DrivenMesh) -> None:
    driven.store.call(lambda tx: tx.run("UPDATE mesh SET connection_policy = 'prefer_oldest'"))
    driven.ready(driven.bob, "i1")
    driven.clock.advance(76)
    assert driven.ready(driven.bob, "i2").closed is None
