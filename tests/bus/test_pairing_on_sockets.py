"""Pairing over real sockets: who is opened to, how often, and what strangers and somebody in between can do."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from parley.bus import pairing
from parley.bus.enrolment import Grant
from parley.bus.pairing import Attempt, Opened
from parley.bus.pairing_guest import Announced, ask, at_address
from parley.bus.pairing_host import Begin, PairingHost, pairing_host
from parley.bus.pairing_wire import PairingWire
from parley.bus.transport import Address
from parley.core import limits
from parley.core.bus_errors import BusError, PairingFailed, PairingMissed
from parley.core.sealing import public_key
from tests.bus.agents import ADA, MALLORY, STRANGER
from tests.bus.pairs import asking, granted, letting_in, show
from tests.bus.wires import HOST, SECONDS

REAL_TIME = True


class Person:
    """Somebody at one of the machines, who reads what it shows and types what she is told."""

    def __init__(self) -> None:
        self.shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.types: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def compare(self, code: str, opened: Opened) -> str:
        self.shown.set_result(code)
        return await self.types


class Two:
    """A machine that lets in, one that asks, and somebody at each."""

    def __init__(self) -> None:
        self.here, self.there = Person(), Person()
        self.issued: list[str] = []

    def issue(self, line: str) -> str:
        self.issued.append(line)
        return granted(line)

    async def compare(self) -> None:
        """Somebody goes from one machine to the other, and types what she has seen."""
        self.here.types.set_result(await self.there.shown)
        self.there.types.set_result(await self.here.shown)

    async def pair(self, host: PairingHost, address: Address) -> tuple[Grant | BusError, None | BusError]:
        """What comes of it on the side that asks, and on the one that lets in."""
        return tuple(  # pyright: ignore[reportReturnType]
            await asyncio.gather(
                self.asked(address), host.pair(self.here.compare, self.issue), self.compare(), return_exceptions=True
            )
        )[:2]

    async def asked(self, address: Address) -> Grant:
        return await ask(await at_address(address, asking), self.there.compare)


@pytest.fixture(autouse=True)
async def deadline() -> AsyncIterator[None]:
    async with asyncio.timeout(SECONDS):
        yield


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is hung up on for being slow, so what ends a connection is something else."""
    monkeypatch.setattr(limits, "BUS_HELLO_SECONDS", 10 * SECONDS)


async def ended(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionResetError):
        assert await reader.read() == b""


@asynccontextmanager
async def waiting(begin: Begin = letting_in) -> AsyncIterator[PairingHost]:
    async with pairing_host(begin, HOST, 0) as host:
        yield host


async def test_a_machine_is_let_in_once_both_have_compared() -> None:
    two = Two()
    async with waiting() as host:
        grant, done = await two.pair(host, host.address)
    assert done is None
    assert isinstance(grant, Grant)
    assert grant.chain.agent_key == public_key(ADA)
    assert len(two.issued) == 1


@pytest.mark.parametrize("where", ["here", "there"])
async def test_nothing_is_issued_when_one_of_them_types_something_else(where: str) -> None:
    two = Two()
    getattr(two, where).types.set_result("000000")
    other = two.there if where == "here" else two.here
    async with waiting() as host:
        tasks = asyncio.gather(two.asked(host.address), host.pair(two.here.compare, two.issue), return_exceptions=True)
        other.types.set_result(await other.shown)
        found = await tasks
    assert [type(each) for each in found] == [PairingFailed, PairingFailed]
    assert {each.details["reason"] for each in found if isinstance(each, PairingFailed)} == {"digits", "ended"}
    assert two.issued == []


async def test_somebody_in_between_shows_other_digits_and_nothing_is_issued() -> None:
    """Mallory lets Ada in as a user of her own, and asks Bob to be let in herself. A relay is the control."""
    two, mallory = Two(), Two()
    async with waiting() as bob, waiting(lambda: letting_in(STRANGER)) as in_between:
        to_bob = asyncio.gather(
            ask(await at_address(bob.address, lambda: asking(MALLORY)), mallory.there.compare),
            bob.pair(two.here.compare, two.issue),
            return_exceptions=True,
        )
        to_ada = asyncio.gather(
            two.asked(in_between.address),
            in_between.pair(mallory.here.compare, lambda line: granted(line, STRANGER)),
            return_exceptions=True,
        )
        assert await two.here.shown != await two.there.shown
        for person in (mallory.here, mallory.there):
            person.types.set_result(await person.shown)
        await two.compare()
        assert {type(each) for each in (*await to_bob, *await to_ada)} == {PairingFailed}
    assert two.issued == []


async def test_somebody_in_between_who_changes_nothing_does_no_harm() -> None:
    """The control of the one before."""
    two = Two()
    async with waiting() as host, relay(host.address) as in_between:
        grant, done = await two.pair(host, in_between)
    assert done is None
    assert isinstance(grant, Grant)


async def test_of_those_who_ask_only_one_is_shown_anything() -> None:
    """Whoever comes second is hung up on, as is whoever tries again once the first one has failed."""
    two = Two()
    async with waiting() as host:
        second = await at_address(host.address, asking)
        first = asyncio.gather(two.pair(host, host.address))
        await two.here.shown
        with pytest.raises(PairingFailed) as refusal:
            await ask(second, Person().compare)
        assert refusal.value.details["reason"] == "ended"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*host.address)
        await first
    assert len(two.issued) == 1


async def shown(bob: Address, attempts: Sequence[Attempt]) -> list[str]:
    """The digits of those attempts that are opened to, when all of them have committed before any of them opens."""
    wires = [PairingWire(*await asyncio.open_connection(*bob)) for _ in attempts]
    found: list[str] = []
    for wire, attempt in zip(wires, attempts, strict=True):
        await wire.send(attempt.commitment())
        attempt.receive(await wire.receive())
    for wire, attempt in zip(wires, attempts, strict=True):
        with suppress(PairingFailed):
            await wire.send(attempt.opening())
    for wire, attempt in zip(wires, attempts, strict=True):
        with suppress(PairingFailed):
            attempt.receive(await wire.receive())
            found.append(attempt.code)
        await wire.close()
    return found


def mallorys(count: int) -> list[Attempt]:
    return [asking(MALLORY, secrets.token_bytes(32)) for _ in range(count)]


def bobs() -> Attempt:
    return letting_in(nonce=secrets.token_bytes(32))


async def test_whoever_tries_many_times_in_one_pairing_is_shown_digits_once() -> None:
    two = Two()
    async with waiting(bobs) as host:
        trying = asyncio.ensure_future(host.pair(two.here.compare, two.issue))
        assert await shown(host.address, mallorys(40)) == [await two.here.shown]
        with pytest.raises(PairingFailed):
            await trying
        with pytest.raises(ConnectionRefusedError):
            await shown(host.address, mallorys(1))
    assert two.issued == []


async def test_that_a_pairing_is_one_attempt_is_what_stops_somebody_who_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: against a machine that begins again by itself, she is shown the digits that she needs in the end.

    She knows those that Ada shows before she has to open to Ada. Here there are ten of them, not a million.
    """
    monkeypatch.setattr(pairing, "CODE_DIGITS", 1)
    ada, to_ada = asking(), letting_in(STRANGER)
    show(ada, to_ada)
    for _ in range(1_000):
        two = Two()
        async with waiting(bobs) as host:
            trying = asyncio.ensure_future(host.pair(two.here.compare, two.issue))
            found = await shown(host.address, mallorys(1))
            await asyncio.wait({trying})
            assert isinstance(trying.exception(), PairingFailed)
        if found == [ada.code]:
            return
    pytest.fail("she was never lucky")


async def test_nothing_is_shown_to_whoever_shows_something_else_than_it_committed_to() -> None:
    """An honest machine that comes after it is let in, and is the control."""
    two = Two()
    async with waiting() as host:
        for frames in (
            [asking().commitment(), b"\x02" + bytes(32) + b"something else"],
            [b"\x02" + bytes(40)],
            [b"", b""],
            [b"\x03" + bytes(64)],
        ):
            assert not any(said[:1] == b"\x02" for said in await said_to(host.address, frames))
        grant, _ = await two.pair(host, host.address)
    assert isinstance(grant, Grant)


@pytest.mark.usefixtures("patient")
async def test_a_frame_that_is_announced_as_too_large_is_not_waited_for() -> None:
    async with waiting() as host:
        reader, writer = await asyncio.open_connection(*host.address)
        writer.write((1 << 31).to_bytes(4))
        await ended(reader)
        writer.close()


async def test_a_stranger_who_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUS_HELLO_SECONDS", 0.01)
    async with waiting() as host:
        reader, writer = await asyncio.open_connection(*host.address)
        await ended(reader)
        writer.close()


@pytest.mark.usefixtures("patient")
async def test_strangers_who_say_nothing_crowd_out_themselves() -> None:
    two = Two()
    async with waiting() as host:
        strangers = [await asyncio.open_connection(*host.address) for _ in range(limits.BUS_NEWCOMERS_MAX + 8)]
        for reader, _ in strangers[:8]:
            await ended(reader)
        grant, _ = await two.pair(host, host.address)
        assert isinstance(grant, Grant)
        for _, writer in strangers:
            writer.close()


async def test_whoever_answers_and_does_not_pair_is_refused() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((7).to_bytes(4) + b"\x01parley")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(babble, HOST, 0)
    with pytest.raises(PairingFailed) as refusal:
        await at_address(Address(*server.sockets[0].getsockname()[:2]), asking)
    assert refusal.value.details["reason"] == "malformed"
    server.close()


class Heard(Announced):
    """Hears what the test tells it, without multicast."""

    def __init__(self, *addresses: Address) -> None:
        super().__init__()
        for number, address in enumerate(addresses):
            self._heard(f"record {number}", {}, [Address(HOST, 1), address])

        async def start(listening: Address | None = None) -> None:
            pass

        self._multicast.start = start


async def test_of_what_is_announced_the_one_that_answers_is_taken() -> None:
    """What a machine that was killed has announced lives on for an hour."""
    two = Two()
    async with waiting() as host:
        heard = Heard(Address(HOST, 1), host.address)
        done, grant, _ = await asyncio.gather(
            host.pair(two.here.compare, two.issue), answered(heard, two), two.compare()
        )
    assert done is None
    assert isinstance(grant, Grant)


async def answered(heard: Announced, two: Two) -> Grant:
    return await ask(await heard.answered(asking), two.there.compare)


async def test_where_several_let_in_none_of_them_is_shown_anything() -> None:
    began: list[Attempt] = []

    def begin() -> Attempt:
        began.append(asking())
        return began[-1]

    async with waiting() as one, waiting() as other:
        with pytest.raises(PairingMissed) as refusal:
            await Heard(one.address, other.address).answered(begin)
    assert refusal.value.details["found"] == [f"{HOST}:{each.address.port}" for each in (one, other)]
    assert [attempt._has_opened for attempt in began] == [False, False]


@asynccontextmanager
async def relay(to: Address) -> AsyncIterator[Address]:
    """Somebody in between who hands on everything as it is."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1_000):
            writer.write(data)
        writer.close()

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*to)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    server = await asyncio.start_server(between, HOST, 0)
    yield Address(*server.sockets[0].getsockname()[:2])
    server.close()


async def said_to(address: Address, frames: list[bytes]) -> list[bytes]:
    """What is answered to these frames, until the other side hangs up."""
    reader, writer = await asyncio.open_connection(*address)
    wire, heard = PairingWire(reader, writer), list[bytes]()
    try:
        for frame in frames:
            await wire.send(frame)
        while True:
            heard.append(await wire.receive())
    except PairingFailed:
        return heard
    finally:
        await wire.close()
