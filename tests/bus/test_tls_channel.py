"""What a channel does with what its connection tells it, without a network."""

import asyncio
from typing import Any

import pytest

from parley.bus.frames import framed
from parley.bus.tls_channel import TlsChannel
from parley.core.bus_errors import ChannelClosed, FrameTooLarge
from tests.bus.wires import SECONDS

REAL_TIME = True


class Connection(asyncio.Transport):
    """A connection of asyncio's, of which a test is the other side."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_reading_ = True
        self.is_open = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        raise OSError("no socket")

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_reading_ = False

    def resume_reading(self) -> None:
        self.is_reading_ = True

    def close(self) -> None:
        self.is_open = False

    abort = close


def connected(**options: Any) -> tuple[TlsChannel, Connection]:
    channel, connection = TlsChannel(**options), Connection()
    channel.connection_made(connection)
    return channel, connection


async def test_nothing_is_read_while_many_bytes_wait_and_then_it_goes_on() -> None:
    channel, connection = connected()
    for _ in range(3):
        assert connection.is_reading_
        channel.data_received(framed(bytes(100_000)))
    assert not connection.is_reading_
    for _ in range(2):
        await channel.receive()
        assert not connection.is_reading_
    await channel.receive()
    assert connection.is_reading_


async def test_the_silence_of_a_peer_that_is_not_read_is_not_held_against_it() -> None:
    channel, connection = connected(frame_gap_seconds=0.01)
    channel.data_received(framed(bytes(300_000)) + framed(b"late")[:-1])
    assert not connection.is_reading_
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, passed.set)
    await passed.wait()
    assert connection.is_open
    await channel.receive()
    with pytest.raises(ChannelClosed, match="within a frame"):
        async with asyncio.timeout(SECONDS):
            await channel.receive()
    assert not connection.is_open


async def test_a_send_waits_while_the_other_side_takes_nothing() -> None:
    channel, connection = connected()
    channel.pause_writing()
    sending = asyncio.create_task(channel.send(b"hello"))
    await asyncio.sleep(0)
    assert not sending.done()
    channel.resume_writing()
    await sending
    assert connection.written == framed(b"hello")


async def test_whoever_waits_is_told_when_the_connection_is_lost() -> None:
    channel, _ = connected()
    channel.pause_writing()
    waiting = [asyncio.create_task(channel.send(b"hello")), asyncio.create_task(channel.receive())]
    await asyncio.sleep(0)
    channel.connection_lost(ConnectionResetError("reset"))
    for each in waiting:
        with pytest.raises(ChannelClosed, match="reset"):
            await each


async def test_frames_that_came_before_one_that_is_too_large_are_still_there() -> None:
    channel, connection = connected()
    channel.data_received(framed(b"whole") + b"\xff" * 4)
    assert not connection.is_open
    assert await channel.receive() == b"whole"
    for _ in range(2):
        with pytest.raises(FrameTooLarge) as refused:
            await channel.receive()
        assert refused.value.details["bytes"] == 2**32 - 1


async def test_a_channel_that_was_given_up_before_it_was_connected_hangs_up() -> None:
    channel, connection = TlsChannel(), Connection()
    channel.abort()
    channel.connection_made(connection)
    assert not connection.is_open


async def test_a_close_does_not_wait_for_ever_for_the_other_side() -> None:
    channel, connection = connected(farewell_seconds=0.01)
    async with asyncio.timeout(SECONDS):
        await channel.close()
    assert not connection.is_open
