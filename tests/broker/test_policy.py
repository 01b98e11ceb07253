"""Numbers of a broker that must agree with each other, whatever its operator sets."""

import base64

import pytest
from msgspec.structs import replace

from parley.broker.policy import Policy
from parley.broker.server import TICK_SECONDS
from parley.wire.broker import Push, encode_frame
from tests.daemon.world import push as make_push

MESSAGE = make_push().message


@pytest.mark.parametrize("heartbeat_ms", [1_000, 2_000, 7_999, 8_000, 30_000, 3_600_000])
def test_who_is_connected_is_written_down_before_anybody_is_taken_for_gone(heartbeat_ms: int) -> None:
    """Otherwise a member who is there would lose its leases, and its place to another daemon."""
    policy = Policy(heartbeat_ms=heartbeat_ms)
    assert policy.heartbeat_ms < policy.silence_ms
    assert policy.seen_ms + TICK_SECONDS * 1000 < policy.silence_ms


@pytest.mark.parametrize("window", [1, 64, 1_000])
@pytest.mark.parametrize("inline_bytes_max", [1_024, 64 * 1024, 128 * 1024])
def test_a_window_of_the_largest_deliveries_never_counts_as_too_much(window: int, inline_bytes_max: int) -> None:
    """A member that takes what it is given would otherwise be cut off each time, and never get anything."""
    policy = Policy(window=window, inline_bytes_max=inline_bytes_max)
    push = Push(1, 1, False, replace(MESSAGE, body=base64.b64encode(bytes(inline_bytes_max)).decode()))
    assert window * len(encode_frame(push)) < policy.queue_bytes_max
    assert 2 * window < policy.queue_frames_max
