"""Agents of one user reach each other over real sockets, and frames arrive whole and in order or not at all."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from parley.bus.tls_transport import TlsTransport
from parley.bus.transport import Address, Channel
from parley.core import limits
from parley.core.bus_errors import (
    CertificateExpired,
    ChainInvalid,
    ChannelClosed,
    FrameTooLarge,
    ListenRefused,
    PeerUnreachable,
)
from tests.bus.agents import ADA, ADA_NAME, BOB, BOB_NAME, CAROL
from tests.bus.wires import HOST, SECONDS, credentials, dialling, echo, end_of, listening, raw

REAL_TIME = True

NOWHERE = [Address(HOST, 1), Address("no host", 7), Address("." * 300, 7), Address(HOST, 70_000)]


async def test_two_agents_find_each_others_keys_and_exchange_frames() -> None:
    async with listening() as bob, dialling() as ada:
        channel = await ada.dial(bob.address, peer=BOB_NAME)
        assert channel.peer == BOB_NAME
        for frame in (b"hello", b"", bytes(100_000)):
            await echo(channel, frame)
        assert bob.came == [ADA_NAME]


async def test_a_small_frame_waits_for_no_other_on_either_side() -> None:
    bob, taken = TlsTransport(credentials(BOB), host=HOST), asyncio.get_running_loop().create_future()

    async def take(channel: Channel) -> None:
        taken.set_result(channel)
        await channel.receive()

    async with dialling() as ada:
        for side in (await ada.dial(await bob.listen(take), peer=BOB_NAME), await taken):
            assert side._transport is not None
            connection = side._transport.get_extra_info("socket")
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await bob.close()


async def test_large_frames_arrive_in_order_while_others_go_the_other_way() -> None:
    frames = [bytes([number]) * 1_000_000 for number in range(20)]
    async with listening() as bob, dialling() as ada:
        channel = await ada.dial(bob.address, peer=BOB_NAME)

        async def send() -> None:
            for frame in frames:
                await channel.send(frame)

        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
            group.create_task(send())
            assert [await channel.receive() for _ in frames] == frames


async def test_the_largest_frame_arrives_and_a_larger_one_harms_nothing() -> None:
    async with listening() as bob, dialling() as ada:
        channel = await ada.dial(bob.address, peer=BOB_NAME)
        with pytest.raises(FrameTooLarge):
            await channel.send(bytes(limits.BUS_FRAME_BYTES_MAX + 1))
        await echo(channel, bytes(limits.BUS_FRAME_BYTES_MAX))


async def test_fifty_agents_of_one_machine_are_served_at_once() -> None:
    async with listening() as bob, dialling() as ada:
        channels = await asyncio.gather(*(ada.dial(bob.address, peer=BOB_NAME) for _ in range(50)))
        await asyncio.gather(*map(echo, channels))


async def test_a_channel_that_one_side_closes_ends_on_the_other() -> None:
    async with listening() as bob, dialling() as ada:
        channel = await ada.dial(bob.address, peer=BOB_NAME)
        await channel.close()
        await channel.close()
        async with asyncio.timeout(SECONDS):
            assert isinstance(await bob.ended.get(), ChannelClosed)
        for use in (channel.receive(), channel.send(b"late")):
            with pytest.raises(ChannelClosed):
                await use


async def test_what_was_sent_before_the_end_arrives() -> None:
    taken: asyncio.Queue[list[bytes]] = asyncio.Queue()

    async def take_all(channel: Channel) -> None:
        found: list[bytes] = []
        try:
            while True:
                found.append(bytes(await channel.receive()))
        except ChannelClosed:
            taken.put_nowait(found)

    async with dialling(credentials(BOB)) as bob, dialling() as ada:
        address = await bob.listen(take_all)
        channel = await ada.dial(address, peer=BOB_NAME)
        sent = [bytes([number]) * 300_000 for number in range(5)]
        for frame in sent:
            await channel.send(frame)
        await channel.close()
        async with asyncio.timeout(SECONDS):
            assert await taken.get() == sent


async def test_a_channel_is_closed_when_its_handler_returns() -> None:
    async def turn_away(channel: Channel) -> None:
        await channel.receive()

    async with dialling(credentials(BOB)) as bob, dialling() as ada:
        channel = await ada.dial(await bob.listen(turn_away), peer=BOB_NAME)
        await channel.send(b"hello")
        assert isinstance(await end_of(channel), ChannelClosed)


async def test_closing_a_transport_ends_its_channels_and_takes_no_more() -> None:
    async with listening() as bob, dialling() as ada:
        channel = await ada.dial(bob.address, peer=BOB_NAME)
        async with raw(bob.address) as arriving:
            await bob.transport.close()
            await bob.transport.close()
            assert await arriving.rest() == b""
        assert isinstance(await end_of(channel), ChannelClosed)
        with pytest.raises(PeerUnreachable):
            await ada.dial(bob.address, peer=BOB_NAME)
        with pytest.raises(ChannelClosed):
            await bob.transport.dial(bob.address, peer=ADA_NAME)


async def test_a_dial_that_is_cancelled_hangs_up() -> None:
    gone = asyncio.Event()
    here = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        here.set()
        await reader.read()
        gone.set()
        writer.close()

    silent = await asyncio.start_server(wait, HOST, 0)
    async with dialling() as ada, asyncio.timeout(SECONDS), silent:
        dial = asyncio.create_task(ada.dial(Address(HOST, silent.sockets[0].getsockname()[1]), peer=BOB_NAME))
        await here.wait()
        dial.cancel()
        await asyncio.wait([dial])
        assert dial.cancelled()
        await gone.wait()


@pytest.mark.parametrize("host", [HOST, "::1", "localhost"])
async def test_it_listens_where_it_is_told(host: str) -> None:
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:
        pytest.skip(f"this machine has no {host}")
    bob = TlsTransport(credentials(BOB), host=host)
    async with dialling() as ada:
        address = await bob.listen(lambda channel: channel.send(b"hello"))
        channel = await ada.dial(Address(host, address.port), peer=BOB_NAME)
        assert await channel.receive() == b"hello"
    await bob.close()


async def test_without_a_host_it_listens_on_every_address() -> None:
    bob = TlsTransport(credentials(BOB))
    async with dialling() as ada:
        address = await bob.listen(lambda channel: channel.send(b"hello"))
        channel = await ada.dial(Address(HOST, address.port), peer=BOB_NAME)
        assert await channel.receive() == b"hello"
    await bob.close()


async def test_a_port_that_is_taken_is_refused_with_a_code() -> None:
    async with listening() as bob, dialling(port=bob.address.port) as other:
        with pytest.raises(ListenRefused) as refused:
            await other.listen(bob.serve)
        assert refused.value.details["port"] == bob.address.port


@pytest.mark.parametrize(
    "address", [Address(HOST, 1), Address("no host", 7), Address("." * 300, 7), Address(HOST, 70_000)]
)
async def test_an_address_at_which_nobody_is_found_is_told_with_the_error(address: Address) -> None:
    async with dialling() as ada:
        with pytest.raises(PeerUnreachable) as failed:
            await ada.dial(address, peer=BOB_NAME)
        assert failed.value.details == {"peer": BOB_NAME.hex(), "tried": [list(address)]}
        assert failed.value.transient


async def test_where_a_peer_was_reached_is_told_only_when_it_was() -> None:
    reached: list[object] = []
    async with listening() as bob, dialling(reached=lambda *found: reached.append(found)) as ada:
        with pytest.raises(PeerUnreachable):
            await ada.dial(bob.address, peer=ADA_NAME)
        assert reached == []
        await ada.dial(bob.address, peer=BOB_NAME)
        assert reached == [(BOB_NAME, bob.address)]


async def test_a_renewed_certificate_is_shown_from_the_next_connection_on() -> None:
    async with listening() as bob, dialling(credentials(ADA, ended=True)) as ada:
        with pytest.raises(PeerUnreachable):
            await ada.dial(bob.address, peer=BOB_NAME)
        ada.renew(credentials(ADA))
        channel = await ada.dial(bob.address, peer=BOB_NAME)
        bob.transport.renew(credentials(BOB, ended=True))
        await echo(channel)
        with pytest.raises(CertificateExpired):
            await ada.dial(bob.address, peer=BOB_NAME)
        bob.transport.renew(credentials(BOB))
        await echo(await ada.dial(bob.address, peer=BOB_NAME))


async def test_a_certificate_of_another_agent_is_no_renewal() -> None:
    async with dialling() as ada:
        with pytest.raises(ChainInvalid):
            ada.renew(credentials(CAROL))


def test_the_key_is_in_no_file_when_it_is_loaded() -> None:
    """The interpreter tells of each file that is opened or made. A pipe is opened by its number, a file by its name."""
    code = (
        "import sys\n"
        "from tests.bus.wires import credentials\n"
        "from tests.bus.agents import ADA\n"
        "from parley.bus.tls_contexts import make_contexts\n"
        "shown, opened = credentials(ADA), []\n"
        "make_contexts(shown)\n"
        "watched = {'open', 'os.link', 'os.rename', 'tempfile.mkstemp', 'tempfile.mkdtemp'}\n"
        "sys.addaudithook(lambda event, about: opened.append(type(about[0]).__name__) if event in watched else None)\n"
        "make_contexts(shown)\n"
        "print(*set(opened))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["int"]


class Process:
    """Bob, in a process of his own."""

    def __init__(self, port: int) -> None:
        code = (
            "import asyncio, sys\n"
            "from tests.bus.wires import listening\n"
            "async def main():\n"
            f"    async with listening(port={port}) as bob:\n"
            "        print(bob.address.port, flush=True)\n"
            "        await asyncio.Event().wait()\n"
            "asyncio.run(main())\n"
        )
        self.running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert self.running.stdout is not None
        self.address = Address(HOST, int(self.running.stdout.readline()))

    def kill(self) -> None:
        self.running.send_signal(signal.SIGKILL)
        self.running.communicate(timeout=SECONDS)


@contextmanager
def bob_process(port: int = 0) -> Iterator[Process]:
    process = Process(port)
    try:
        yield process
    finally:
        process.kill()


async def test_a_peer_that_is_killed_ends_the_channel_and_is_reached_again_when_it_is_back() -> None:
    async with dialling() as ada:
        with bob_process() as bob:
            channel = await ada.dial(bob.address, peer=BOB_NAME)
            await echo(channel)
            bob.kill()
            assert isinstance(await end_of(channel), ChannelClosed)
            with pytest.raises(PeerUnreachable):
                await ada.dial(bob.address, peer=BOB_NAME)
        with bob_process(bob.address.port) as again:
            await echo(await ada.dial(again.address, peer=BOB_NAME))
