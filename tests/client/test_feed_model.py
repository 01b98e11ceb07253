"""Random histories of a feed: whatever is lost, repeated or restarted, the consumer gets the log, in order, each once.

The machine is run against a model of a hub and of a network that fails at every place where one can. ``STEPS_MAX`` fair
steps after the last failure must be enough: a feed that stopped making progress fails the test.
"""

from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from parley.client import feed_machine as fm
from parley.client.cursor import Cursor
from parley.client.feed_machine import FeedMachine
from parley.core.errors import HubNotRunning, InvalidAuth, ParleyError, ServiceUnavailable
from parley.wire.events import Entity, EventEnvelope, HelloOk, Scope

STEPS_MAX = 2_000
RECONNECTING_CODES = (1000, 1001, 1006, 1008, 1011, 1012)


class ModelHub:
    """A log with its identity, and at most one socket, which knows what it has sent."""

    def __init__(self, db_id: str, length: int) -> None:
        self.db_id = db_id
        self.length = length
        self.sent: int | None = None

    def greet(self, after: int | None) -> HelloOk:
        start = after or 0
        reset = start > self.length
        self.sent = min(start, self.length)
        return HelloOk(self.length, self.length, "instance", reset)

    def next_event(self) -> EventEnvelope | None:
        assert self.sent is not None
        if self.sent >= self.length:
            return None
        self.sent += 1
        return event(self.sent, self.db_id)


def event(event_id: int, db_id: str) -> EventEnvelope:
    return EventEnvelope(event_id, "", "x.y", Scope(), {"db": db_id}, Entity("x", "1"))


class Run:
    """One history: the machine, the hub, the consumer, and an adversary who decides by drawing numbers."""

    def __init__(self, data: st.DataObject, hub: ModelHub, trouble: int, *, consumer_dies: bool = False) -> None:
        self.data = data
        self.hub = hub
        self.trouble = trouble
        self.consumer_dies = consumer_dies
        self.greeting: HelloOk | None = None
        self.awaited: fm.Awaited | None = None
        self.saved: Cursor | None = None
        self.emitted: list[tuple[str, int]] = []
        self.changes: list[str] = []
        self.machine = self.new_machine()

    def new_machine(self) -> FeedMachine:
        return FeedMachine(random=lambda: 0.5, cursor=self.saved)

    def strikes(self, *, one_in: int = 3) -> bool:
        """Whether the adversary does harm here; he has a limited number of strokes."""
        if self.trouble == 0 or self.data.draw(st.integers(0, one_in - 1)) != 0:
            return False
        self.trouble -= 1
        return True

    def until_caught_up(self) -> None:
        """Runs until the consumer waits for an event that does not exist yet."""
        for _ in range(STEPS_MAX):
            given = fm.Wanted() if self.awaited is None else self.outcome(self.awaited)
            if given is None:
                return
            effects = self.machine.handle(given)
            for effect in effects.first:
                if isinstance(effect, fm.Save):
                    assert self.emitted[-1] == (effect.cursor.db_id, effect.cursor.event_id), "the cursor ran ahead"
                    self.saved = effect.cursor
                else:
                    self.changes.append(effect.change.name)
            self.awaited = effects.then
        raise AssertionError(f"no progress beyond {self.emitted[-3:]} of {self.hub.length}")

    def outcome(self, effect: fm.Awaited) -> fm.Input | None:
        match effect:
            case fm.Locate():
                return fm.Failed(HubNotRunning("down")) if self.strikes() else fm.Located(self.hub.db_id)
            case fm.Open():
                return self.failed_open() if self.strikes() else fm.Opened()
            case fm.Greet(hello):
                if self.strikes():
                    return fm.Closed(1006)
                self.greeting = self.hub.greet(hello.after_event_id)
                return fm.Greeted()
            case fm.Receive():
                return self.received()
            case fm.Sleep():
                return fm.Elapsed()
            case fm.Emit(event):
                self.emitted.append((event.data["db"], event.event_id))
                return self.consumed()
            case fm.Stop(error):
                raise error

    def failed_open(self) -> fm.Input:
        errors: list[ParleyError] = [ServiceUnavailable("full", reason="x")]
        return self.data.draw(st.sampled_from([fm.Closed(1006), *map(fm.Failed, errors)]))

    def received(self) -> fm.Input | None:
        if self.strikes(one_in=8):
            return fm.Closed(self.data.draw(st.sampled_from(RECONNECTING_CODES)))
        if self.greeting is not None:
            greeting, self.greeting = self.greeting, None
            return fm.Received(msgspec.json.encode(greeting))
        if self.strikes(one_in=8) and self.hub.sent:
            repeated = self.data.draw(st.integers(1, self.hub.sent))
            return fm.Received(msgspec.json.encode(event(repeated, self.hub.db_id)))
        following = self.hub.next_event()
        return None if following is None else fm.Received(msgspec.json.encode(following))

    def consumed(self) -> fm.Input:
        """What the consumer does with an event: goes on, or dies in the middle and begins anew from its cursor."""
        if self.consumer_dies and self.strikes(one_in=12):
            self.machine = self.new_machine()
        return fm.Wanted()


@given(st.data(), st.integers(0, 25), st.integers(0, 40))
def test_the_consumer_gets_the_whole_log_in_order(data: st.DataObject, length: int, trouble: int) -> None:
    run = Run(data, ModelHub("db", length), trouble)
    run.until_caught_up()
    assert run.emitted == [("db", number) for number in range(1, length + 1)]
    run.hub.length += 5
    run.until_caught_up()
    assert run.emitted == [("db", number) for number in range(1, length + 6)], (
        "what came live follows what was replayed"
    )
    assert "reset" not in run.changes
    assert_told_in_turns(run.changes)


@given(st.data(), st.integers(0, 25), st.integers(0, 40))
def test_a_consumer_that_dies_repeats_at_most_the_event_it_died_on(
    data: st.DataObject, length: int, trouble: int
) -> None:
    run = Run(data, ModelHub("db", length), trouble, consumer_dies=True)
    run.until_caught_up()
    numbers = [number for _, number in run.emitted]
    assert sorted(set(numbers)) == list(range(1, length + 1)), "none is missed"
    for before, after in pairwise(numbers):
        assert after in (before, before + 1), "an event came again although the cursor was past it"


@given(st.data(), st.integers(1, 15), st.integers(0, 15), st.integers(0, 30), st.booleans())
def test_a_log_that_is_replaced_is_read_from_its_beginning_after_one_reset(
    data: st.DataObject, length: int, new_length: int, trouble: int, same_identity: bool
) -> None:
    run = Run(data, ModelHub("old", length), 0)
    run.until_caught_up()
    # A restored backup keeps its identity, and is noticed when it is shorter than the cursor.
    run.hub = ModelHub("old", min(new_length, length - 1)) if same_identity else ModelHub("new", new_length)
    run.trouble = trouble
    run.emitted.clear()
    run.awaited = run.machine.handle(fm.Closed(1006)).then
    run.until_caught_up()
    assert run.emitted == [(run.hub.db_id, number) for number in range(1, run.hub.length + 1)]
    assert run.changes.count("reset") == 1


@given(st.lists(st.sampled_from(["refused", "works"]), max_size=12))
def test_only_two_refused_tokens_in_a_row_end_the_feed(answers: list[str]) -> None:
    machine = FeedMachine(random=lambda: 0.5)
    machine.handle(fm.Wanted())
    refused_in_a_row = 0
    for answer in answers:
        machine.handle(fm.Located("db"))
        if answer == "refused":
            refused_in_a_row += 1
            then = machine.handle(fm.Failed(InvalidAuth("Unauthorized"))).then
            assert isinstance(then, fm.Stop) == (refused_in_a_row == 2)
            if refused_in_a_row == 2:
                return
        else:
            refused_in_a_row = 0
            machine.handle(fm.Opened())
            machine.handle(fm.Received(msgspec.json.encode(HelloOk(0, 0, "instance"))))
            machine.handle(fm.Closed(1006))
            machine.handle(fm.Elapsed())


def assert_told_in_turns(changes: list[str]) -> None:
    """A loss and a return alternate; the first return of all is ``connected``."""
    ups = [change for change in changes if change != "disconnected"]
    assert ups[:1] in ([], ["connected"])
    assert all(change == "reconnected" for change in ups[1:])
    for before, after in pairwise(changes):
        assert (before == "disconnected") != (after == "disconnected")
