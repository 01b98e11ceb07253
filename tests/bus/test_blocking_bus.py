"""The bus without an event loop: each call waits, from whatever thread it comes. Two machines over loopback."""

import inspect
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from parley.bus import EVERYTHING, BlockingBus, Bus, Message
from parley.bus.enrolment import issue_grant
from parley.bus.home import BusHome, key_pem, locked
from parley.bus.standing import keep_grant
from parley.core.bus_errors import BusClosed, HandlerFailed, NoIdentity
from parley.core.clock import SystemClock
from parley.core.errors import InvalidInput
from parley.core.files import write_new
from parley.core.sealing import public_key
from tests.bus.agents import ADA, BOB, BOB_NAME, USER

SECONDS = 30.0
LOOP_ONLY = {"bind", "bind_with", "learn", "renew", "revocations", "is_closed"}
"""Of the other face, what whoever has a folder does not need: the folder is followed."""


def folder(root: Path, seed: bytes) -> Path:
    home = BusHome(root)
    with locked(home):
        write_new(home.agent_key, key_pem(seed))
        now_ms = SystemClock().now_ms()
        keep_grant(home, issue_grant(USER, public_key(seed), role="agent", caveats=EVERYTHING, now_ms=now_ms))
    return root


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[BlockingBus, BlockingBus]]:
    """Ada and Bob, who know where the other one is."""
    with ExitStack() as stack:
        buses = [
            stack.enter_context(
                BlockingBus.at_home(topics=["news"], folder=folder(tmp_path / name, seed), host="127.0.0.1", mdns=False)
            )
            for name, seed in (("ada", ADA), ("bob", BOB))
        ]
        for name, other in (("ada", buses[1]), ("bob", buses[0])):
            (tmp_path / name / "peers").write_text(f"{other.fingerprint.hex()} 127.0.0.1:{other.address.port}\n")
        yield buses[0], buses[1]


def test_every_method_of_the_bus_has_one_that_waits() -> None:
    names = {name for name in vars(Bus) if not name.startswith("_")} - LOOP_ONLY
    assert names - set(vars(BlockingBus)) == set()
    for name in names - {"fingerprint", "address", "subscribe", "handle", "close"}:
        waits, is_awaited = (inspect.signature(getattr(face, name)) for face in (BlockingBus, Bus))
        assert waits.parameters == is_awaited.parameters, name


def test_a_request_is_answered_by_a_handler_that_may_wait_itself(pair: tuple[BlockingBus, BlockingBus]) -> None:
    ada, bob = pair

    def ask_back(message: Message) -> bytes:
        return message.body + bob.request(message.peer, "name", b"")

    bob.handle("greet", ask_back)
    ada.handle("name", lambda message: b"Ada")
    assert ada.request(BOB_NAME, "greet", b"hello ") == b"hello Ada"


def test_what_a_handler_raises_and_what_is_refused_is_raised_here(pair: tuple[BlockingBus, BlockingBus]) -> None:
    ada, bob = pair
    bob.handle("broken", lambda message: bytes.fromhex("no"))
    with pytest.raises(HandlerFailed):
        ada.request(BOB_NAME, "broken", b"")
    with pytest.raises(InvalidInput):
        bob.handle("broken", lambda message: b"")


def test_what_is_published_is_iterated_or_handed_over(pair: tuple[BlockingBus, BlockingBus]) -> None:
    ada, bob = pair
    taken: list[Message] = []
    came = Event()

    def take(message: Message) -> None:
        taken.append(message)
        came.set()

    bob.subscribe("alerts", take)
    ada.connect(BOB_NAME)
    messages = bob.subscribe("news")
    assert ada.publish_to(BOB_NAME, "news", b"one").outcome == "delivered"
    assert [each.outcome for each in ada.publish("news", b"two")] == ["delivered"]
    assert [next(messages).body, next(messages).body] == [b"one", b"two"]
    assert ada.publish_to(BOB_NAME, "alerts", b"three").outcome == "delivered"
    assert came.wait(SECONDS)
    assert taken[0].body == b"three"
    assert [peer.fingerprint for peer in ada.peers()] == [BOB_NAME]


def test_what_waits_can_be_listed_and_given_up(pair: tuple[BlockingBus, BlockingBus]) -> None:
    ada, bob = pair
    ada.connect(BOB_NAME)
    bob.close()
    delivery = ada.publish_to(BOB_NAME, "news", b"later")
    assert delivery.outcome == "spooled"
    assert delivery.outbox_id is not None
    assert [item.id for item in ada.outbox().waiting] == [delivery.outbox_id]
    assert not ada.unwedge(delivery.outbox_id)
    assert ada.discard(delivery.outbox_id)
    assert ada.inbox() == []
    assert not ada.unwedge_inbox(1)


def test_a_bus_that_is_closed_ends_whoever_waits_for_it(pair: tuple[BlockingBus, BlockingBus]) -> None:
    ada, bob = pair
    runs, may_return = Event(), Event()

    def hang(message: Message) -> bytes:
        runs.set()
        may_return.wait()
        return b""

    bob.handle("hang", hang)
    found: list[Any] = []

    def ask() -> None:
        try:
            ada.request(BOB_NAME, "hang", b"")
        except BusClosed as error:
            found.append(error)

    def iterate() -> None:
        found.extend(ada.subscribe("news"))
        found.append("ended")

    waiting = [Thread(target=each) for each in (ask, iterate)]
    for each in waiting:
        each.start()
    assert runs.wait(SECONDS)
    ada.close()
    for each in waiting:
        each.join(SECONDS)
    assert {str(type(each).__name__) for each in found} == {"BusClosed", "str"}
    ada.close()
    with pytest.raises(BusClosed):
        ada.publish("news", b"")
    may_return.set()


def test_a_bus_that_cannot_begin_says_why(tmp_path: Path) -> None:
    with pytest.raises(NoIdentity):
        BlockingBus.at_home(folder=tmp_path, mdns=False)
