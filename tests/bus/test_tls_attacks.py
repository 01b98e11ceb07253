"""Whoever is not one of the user's agents gets nothing, and holds up nobody who is. Each attack has its control."""

import asyncio
import gc
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from contextlib import AsyncExitStack

import pytest

from parley.bus.frames import framed
from parley.bus.newcomers import ConnectionBounds
from parley.bus.tls_contexts import Credentials, make_contexts
from parley.bus.tls_transport import Deadlines, TlsTransport
from parley.bus.transport import Address, Channel
from parley.bus.x509 import TlsCertificates
from parley.core import limits
from parley.core.bus_errors import CertificateExpired, ChainInvalid, ChannelClosed, FrameTooLarge, PeerUnreachable
from tests.bus.agents import ADA, ADA_NAME, BOB, BOB_NAME, CAROL, MALLORY, STRANGER
from tests.bus.tls_by_hand import DATA, shown
from tests.bus.wires import (
    HOST,
    SECONDS,
    WELCOME,
    Listener,
    Raw,
    adas_context,
    credentials,
    dialling,
    echo,
    is_served,
    listening,
    raw,
    stranger_context,
)

REAL_TIME = True

SOON = Deadlines(handshake_seconds=0.1, frame_gap_seconds=0.1)
"""For tests that wait for a deadline to pass."""
GARBAGE = [b"GET / HTTP/1.1\r\n\r\n", bytes(100_000), b"\x16\x03\x01\xff\xff" + b"\xff" * 70_000]


async def refused(attacking: Credentials, bob: Listener, peer: bytes = BOB) -> PeerUnreachable:
    async with dialling(attacking) as attacker:
        with pytest.raises(PeerUnreachable) as failed:
            await attacker.dial(bob.address, peer=credentials(peer).agent)
    return failed.value


async def test_another_users_agent_is_refused_and_never_seen_by_the_handler() -> None:
    async with listening() as bob:
        foreign = credentials(MALLORY, STRANGER)
        with_our_root = foreign._replace(certificates=TlsCertificates(foreign.certificates.leaf, ours()))
        for attacking in (foreign, with_our_root):
            assert "refuse" in str(await refused(attacking, bob))
        assert bob.came == []
        await is_served(bob)


async def test_another_users_agent_that_answers_is_refused_before_it_receives_a_frame() -> None:
    foreign = credentials(BOB, STRANGER)
    async with listening(foreign._replace(certificates=TlsCertificates(foreign.certificates.leaf, ours()))) as impostor:
        async with dialling() as ada:
            with pytest.raises(PeerUnreachable):
                await ada.dial(impostor.address, peer=BOB_NAME)
        assert impostor.came == []
    async with listening() as bob:
        await is_served(bob)


async def test_an_expired_leaf_is_refused_by_either_side() -> None:
    async with listening() as bob, listening(credentials(BOB, ended=True)) as expired:
        await refused(credentials(ADA, ended=True), bob)
        async with dialling() as ada:
            with pytest.raises(CertificateExpired) as failed:
                await ada.dial(expired.address, peer=BOB_NAME)
        assert failed.value.transient
        assert bob.came == expired.came == []
        await is_served(bob)


async def test_another_users_certificate_that_has_expired_is_not_told_as_a_peers() -> None:
    """Whoever can show what it likes could else tell a person to renew a certificate that is well."""
    foreign = credentials(BOB, STRANGER, ended=True)
    mixed = foreign._replace(certificates=TlsCertificates(foreign.certificates.leaf, ours()))
    for shown_there in (foreign, mixed):
        async with listening(shown_there) as impostor, dialling() as ada:
            with pytest.raises(PeerUnreachable):
                await ada.dial(impostor.address, peer=BOB_NAME)


async def test_a_peer_with_another_key_than_the_dialled_one_is_refused_and_named() -> None:
    async with listening() as bob:
        failed = await refused(credentials(ADA), bob, peer=CAROL)
        assert BOB_NAME.hex() in str(failed)
        assert bob.received == []
        await is_served(bob)


async def test_a_stolen_leaf_is_refused_where_its_key_does_not_sign() -> None:
    """OpenSSL loads no certificate with another key, so a client made by hand shows it. With the key it is let in."""
    leaf = credentials(ADA).certificates.leaf
    with pytest.raises(ChainInvalid):
        make_contexts(Credentials(MALLORY, credentials(ADA).certificates))
    async with listening() as bob:
        for thief in (MALLORY, BOB):
            assert await asyncio.to_thread(shown, bob.address, leaf, thief) is None
        assert bob.came == []
        assert await asyncio.to_thread(shown, bob.address, leaf, ADA) == (DATA, WELCOME)
        assert bob.came == [ADA_NAME]


async def test_an_answer_with_the_diallers_own_certificate_is_refused() -> None:
    async with listening(credentials(ADA)) as reflecting, listening() as bob:
        for peer in (BOB, ADA):
            await refused(credentials(ADA), reflecting, peer=peer)
        assert reflecting.came == []
        await is_served(bob)


async def test_bytes_that_come_back_as_they_were_sent_are_refused() -> None:
    async def reflect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async with await asyncio.start_server(reflect, HOST, 0) as mirror, dialling() as ada, listening() as bob:
        with pytest.raises(PeerUnreachable):
            await ada.dial(Address(HOST, mirror.sockets[0].getsockname()[1]), peer=BOB_NAME)
        await is_served(bob)


async def test_a_client_without_a_certificate_is_refused() -> None:
    async with listening() as bob, raw(bob.address, stranger_context()) as stranger:
        assert await said_to(stranger) == b""
        assert bob.came == []
        async with raw(bob.address, adas_context()) as ada:
            assert await ada.reader.readexactly(len(WELCOME)) == WELCOME


async def test_a_client_that_speaks_only_older_tls_is_refused() -> None:
    context = stranger_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with listening() as bob:
        with pytest.raises(OSError):
            async with raw(bob.address, context):
                pass
        assert bob.came == []
        await is_served(bob)


async def test_a_server_that_speaks_only_older_tls_is_refused() -> None:
    older = make_contexts(credentials(BOB)).accepting
    older.minimum_version = ssl.TLSVersion.TLSv1_2
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    async with await asyncio.start_server(lambda *_: None, HOST, 0, ssl=older) as server, dialling() as ada:
        with pytest.raises(PeerUnreachable):
            await ada.dial(Address(HOST, server.sockets[0].getsockname()[1]), peer=BOB_NAME)


async def test_somebody_with_our_certificates_who_speaks_something_else_is_refused() -> None:
    context = adas_context()
    context.set_alpn_protocols(["http/1.1"])
    async with listening() as bob:
        async with raw(bob.address, context) as other:
            assert await said_to(other) == b""
        assert bob.came == []
        await is_served(bob)


async def test_no_connection_can_be_resumed() -> None:
    """With tickets, which is what contexts have unless they are told otherwise, one is: that is the control."""
    with_tickets = make_contexts(credentials(BOB)).accepting
    with_tickets.num_tickets = 2
    with_tickets.options &= ~ssl.OP_NO_TICKET
    async with listening() as bob, await asyncio.start_server(greet, HOST, 0, ssl=with_tickets) as control:
        found = [
            await asyncio.to_thread(is_resumed, address)
            for address in (bob.address, Address(*control.sockets[0].getsockname()[:2]))
        ]
    assert found == [False, True]


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", bytes(100_000), b"\x16\x03\x01\xff\xff" + b"\xff" * 70_000]
)
async def test_garbage_instead_of_tls_ends_the_connection(garbage: bytes) -> None:
    async with listening() as bob, raw(bob.address) as sender:
        sender.writer.write(garbage)
        sender.writer.write_eof()
        await sender.rest()
        assert bob.came == []
        await is_served(bob)


async def test_connections_that_failed_are_gone_before_the_collector_comes() -> None:
    """Each has 256 KiB of buffers, and a flood makes hundreds of them between two collections."""
    async with listening() as bob:
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                async with raw(bob.address) as connection:
                    connection.writer.write(GARBAGE[0])
                    await connection.rest()
            await is_served(bob)
            kept = [each for each in gc.get_objects() if isinstance(each, SSLProtocol)]
        finally:
            gc.enable()
        assert len(kept) < 5


async def test_who_says_nothing_or_only_begins_is_hung_up_on() -> None:
    async with listening(deadlines=SOON) as bob, raw(bob.address) as silent, raw(bob.address) as beginning:
        beginning.writer.write(b"\x16\x03\x01")
        assert await silent.rest() == b""
        assert await beginning.rest() == b""
        await is_served(bob)


async def test_a_peer_that_falls_silent_within_a_frame_is_hung_up_on_and_between_frames_it_is_not() -> None:
    async with listening(deadlines=SOON) as bob, dialling(credentials(CAROL)) as carol:
        patient = await carol.dial(bob.address, peer=BOB_NAME)
        await echo(patient)
        async with raw(bob.address, adas_context()) as slow:
            slow.writer.write(framed(b"a frame that is cut off")[:-1])
            assert await slow.rest() == WELCOME
        assert "within a frame" in str(await bob.ended.get())
        await echo(patient)


async def test_a_frame_that_is_too_large_ends_the_connection_before_it_is_sent() -> None:
    async with listening() as bob, raw(bob.address, adas_context()) as endless:
        assert await endless.reader.readexactly(len(WELCOME)) == WELCOME
        endless.writer.write(framed(b"whole") + (limits.BUS_FRAME_BYTES_MAX + 1).to_bytes(4))
        await endless.rest()
        assert bob.came == [ADA_NAME]
        assert isinstance(await bob.ended.get(), (FrameTooLarge, ChannelClosed))
        await is_served(bob)


async def test_a_hundred_half_open_connections_leave_the_others_served() -> None:
    async with listening() as bob, dialling(credentials(CAROL)) as carol, AsyncExitStack() as stack:
        before = await carol.dial(bob.address, peer=BOB_NAME)
        crowd = [await stack.enter_async_context(raw(bob.address)) for _ in range(100)]
        await is_served(bob)
        await echo(before)
        for oldest in crowd[: 100 - limits.BUS_NEWCOMERS_MAX]:
            assert await oldest.rest() == b""
        assert not crowd[-1].reader.at_eof()


async def test_a_peer_that_takes_nothing_holds_up_nobody_else() -> None:
    async with listening() as bob, raw(bob.address, adas_context()) as deaf:
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        sending = asyncio.create_task(flood(deaf))
        try:
            await is_served(bob, CAROL)
        finally:
            sending.cancel()
            await asyncio.wait([sending])


async def test_connections_of_one_address_are_bounded() -> None:
    few = ConnectionBounds(connections_per_address_max=2)
    async with listening(bounds=few) as bob, dialling() as ada:
        one, other = [await ada.dial(bob.address, peer=BOB_NAME) for _ in range(2)]
        with pytest.raises(PeerUnreachable):
            await ada.dial(bob.address, peer=BOB_NAME)
        await echo(one)
        await other.close()
        await bob.ended.get()
        async with asyncio.timeout(SECONDS):
            await echo(await dialled_in_the_end(ada, bob))


async def dialled_in_the_end(ada: TlsTransport, bob: Listener) -> Channel:
    """The place of a connection is free when the task that its handler ran in has ended: a moment after the handler."""
    while True:
        try:
            return await ada.dial(bob.address, peer=BOB_NAME)
        except PeerUnreachable:
            await asyncio.sleep(0)


async def flood(connection: Raw) -> None:
    while True:
        connection.writer.write(framed(bytes(100_000)))
        await connection.writer.drain()


async def said_to(connection: Raw) -> bytes:
    """What the other side says to somebody whom it refuses, besides that it does."""
    try:
        return await connection.rest()
    except ssl.SSLError:
        return b""


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(WELCOME)
    await reader.read()
    writer.close()


def is_resumed(address: Address) -> bool:
    """Whether the second of two connections goes on with what the first one has agreed on."""
    context = adas_context()
    context.options &= ~ssl.OP_NO_TICKET
    session = None
    for _ in range(2):
        with socket.create_connection(address, SECONDS) as plain, context.wrap_socket(plain, session=session) as tls:
            assert tls.recv(len(WELCOME)) == WELCOME
            resumed, session = bool(tls.session_reused), tls.session
    return resumed


def ours() -> bytes:
    """The root of the user, which is no secret."""
    return credentials(ADA).certificates.root
