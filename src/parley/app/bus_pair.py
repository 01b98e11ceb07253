"""``parley bus pair``: lets a machine in over the LAN, by six digits that a person compares on both machines.

The machine with the user key lets in; any other one asks. What is issued and stored is what ``parley bus request``,
``issue`` and ``accept`` would have carried by hand.
"""

import asyncio
import secrets
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any, NamedTuple

from parley.app import bus
from parley.bus.addresses import parse_address, show_address
from parley.bus.chain import certify
from parley.bus.fingerprint import fingerprint_of
from parley.bus.home import BusHome, bus_home
from parley.bus.multicast import own_addresses
from parley.bus.pairing import NONCE_BYTES, Attempt, Opened
from parley.bus.pairing_guest import Announced, ask, at_address, pairing_multicast
from parley.bus.pairing_host import pairing_host
from parley.bus.standing import Standing, load_standing
from parley.bus.transport import Address
from parley.core import limits, sealing
from parley.core.bus_errors import NoIdentity, OtherUser, PairingMissed, Revoked
from parley.core.clock import SystemClock
from parley.core.errors import InvalidInput


class Person(NamedTuple):
    """Whoever sits at this machine. ``typed`` waits for a line, and answers what was typed; nothing at the end."""

    waiting: Callable[[dict[str, Any]], None]
    compare: Callable[[dict[str, Any]], None]
    typed: Callable[[], str]
    note: Callable[[str], None]


class Way(NamedTuple):
    """How the other machine is found; the machine that asks has no host and no port."""

    address: str | None
    host: str | None
    port: int | None
    mdns: bool
    seconds: float


def pair(terms: bus.Terms | None, way: Way, person: Person) -> dict[str, Any]:
    """Lets another machine in, where the user key is; elsewhere asks to be let in. ``terms`` are what was given."""
    home = bus_home()
    return asyncio.run(_pair(home, load_standing(home), terms, way, person))


async def _pair(home: BusHome, standing: Standing, terms: bus.Terms | None, way: Way, person: Person) -> dict[str, Any]:
    lets_in = standing.user_seed is not None
    if lets_in and way.address is not None:
        raise InvalidInput("This machine lets others in: give its address to the other one.", field="address")
    if not lets_in and (terms is not None or way.host is not None or way.port is not None):
        raise InvalidInput("What a machine may do is said where the user key is, as is where to listen.", field="role")
    if not (lets_in or way.mdns or way.address):
        raise InvalidInput("Without multicast DNS, give the address of the other machine.", field="address")
    try:
        async with asyncio.timeout(way.seconds):
            return await (_let_in(standing, terms, way, person) if lets_in else _ask(home, way, person))
    except TimeoutError as error:
        raise PairingMissed(f"nobody has paired within {way.seconds:g} seconds") from error


async def _let_in(standing: Standing, terms: bus.Terms | None, way: Way, person: Person) -> dict[str, Any]:
    seed = standing.require_user_seed()
    user_key = sealing.public_key(seed)
    wanted = terms or bus.Terms("agent", limits.BUS_CERTIFICATE_DAYS, (), False, None)
    now_ms = SystemClock().now_ms()
    caveats = wanted.caveats(standing.revocations.generation, now_ms)
    certify(seed, user_key, role=wanted.role, caveats=caveats, now_ms=now_ms)  # before anybody waits for it in vain

    def begin() -> Attempt:
        return Attempt("lets in", user_key, seed, secrets.token_bytes(NONCE_BYTES))

    issued: dict[str, Any] = {}

    def issue(line: str) -> str:
        issued.update(bus.let_in(line, wanted))
        return issued.pop("grant")

    async def compare(code: str, opened: Opened) -> str:
        assert opened.request is not None
        agent = fingerprint_of(bytes.fromhex(opened.request.agent))
        if agent in standing.revocations.revoked:
            raise Revoked("this key was revoked", key=agent.hex())
        return await _typed(person, {"code": code, "agent": agent.hex(), "host": opened.request.host})

    async with pairing_host(begin, way.host, way.port or 0) as waiting, _announced(waiting.address, way, person):
        person.waiting(
            {"port": waiting.address.port, "addresses": [show_address(each) for each in _reachable(waiting.address)]}
        )
        await waiting.pair(compare, issue)
    return {"paired": "let_in", **issued}


async def _ask(home: BusHome, way: Way, person: Person) -> dict[str, Any]:
    address = None if way.address is None else parse_address(way.address)
    line = bus.request()["request"]
    standing = load_standing(home)
    seed = standing.agent_seed
    if seed is None:
        raise NoIdentity("this machine has no key yet")

    def begin() -> Attempt:
        return Attempt("asks", line.encode(), seed, secrets.token_bytes(NONCE_BYTES))

    async def compare(code: str, opened: Opened) -> str:
        assert opened.user is not None
        if standing.user is not None and opened.user != standing.user:
            raise OtherUser("the other machine is another user's", user=opened.user.hex())
        return await _typed(person, {"code": code, "user": opened.user.hex()})

    person.waiting({})
    answered = await (Announced().answered(begin) if address is None else at_address(address, begin))
    grant = await ask(answered, compare)
    accepted = bus.accept(grant.line())
    return {"paired": "accepted", **{name: value for name, value in accepted.items() if name != "accepted"}}


@asynccontextmanager
async def _announced(address: Address, way: Way, person: Person) -> AsyncGenerator[None]:
    multicast = pairing_multicast(missing=person.note)
    if way.mdns:
        await multicast.start(address)
    try:
        yield
    finally:
        await multicast.close()


async def _typed(person: Person, shown: dict[str, Any]) -> str:
    """What somebody types. Whoever never types anything holds nobody up: the thread ends with the process."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def take(text: str) -> None:
        if not typed.done():
            typed.set_result(text)

    def wait() -> None:
        text = person.typed()
        if not loop.is_closed():
            loop.call_soon_threadsafe(take, text)

    person.compare(shown)
    threading.Thread(target=wait, daemon=True).start()
    return await typed


def _reachable(address: Address) -> list[Address]:
    everywhere = ip_address(address.host.partition("%")[0]).is_unspecified
    return [Address(host, address.port) for host in own_addresses()] if everywhere else [address]
