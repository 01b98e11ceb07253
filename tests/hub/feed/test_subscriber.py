"""Gate C without a socket: whatever happens in whatever order, a subscriber gets what it wants, once, in order."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from parley.hub.feed import Feed
from tests.hub.feed.world import Reader, World, message, move, system

STEPS: dict[str, Callable[[World, Reader], None]] = {
    "publish": lambda world, _: (world.commit([message("a", "t1"), message("a", "t2")]), world.publish())[1],
    "answer": lambda _, reader: reader.answer(),
    "fill": lambda _, reader: reader.fill(),
    "drain": lambda _, reader: reader.drain(),
}


@pytest.mark.parametrize("queue_max", [1, 3])
def test_gate_c_every_order_of_five_things_that_happen_to_a_subscriber_gives_each_event_once(
    queue_max: int,
) -> None:
    for steps in product(STEPS, repeat=5):
        world = World(queue_max, batch_max=2)
        world.commit([message("a", "t1"), message("a", "t1"), message("b", "t3")])
        world.publish()
        reader = Reader(world, 1, ["ch_a"], [])
        for step in steps:
            STEPS[step](world, reader)
            assert reader.received == reader.expected[: len(reader.received)], steps
            assert reader.waiting <= queue_max, steps
        settle(reader)
        assert reader.received == reader.expected, steps
        assert reader.subscriber.phase == "live", steps


def settle(reader: Reader) -> None:
    """Lets the socket drain and every read come back."""
    reader.writes_until_full = None
    reader.drain()
    while reader.asked is not None:
        reader.answer()


channels = st.sampled_from(["a", "b", "later"])
topics = st.sampled_from(["t1", "t2", "t3"])
drafts = st.one_of(st.builds(message, channels, topics), st.builds(move, channels, topics, topics), st.builds(system))
filters = st.one_of(
    st.just((None, ())),
    st.tuples(
        st.lists(st.sampled_from(["ch_a", "ch_b", "ch_later", "a", "later", "never"]), max_size=3, unique=True),
        st.lists(topics, max_size=2, unique=True),
    ),
)


class Readers(RuleBasedStateMachine):
    """Several subscribers with several filters on one feed, each with a socket of its own temper."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(queue_max=3, batch_max=2)
        self.readers: list[Reader] = []
        self.world.commit([self.world.channel("a"), self.world.channel("b")])
        self.world.publish()

    @rule(drafts=st.lists(drafts, min_size=1, max_size=5))
    def commit(self, drafts: list) -> None:
        there = [draft for draft in drafts if draft.channel_id != "ch_later" or "ch_later" in self.world.names]
        self.world.commit(there or [system()])  # nothing can be said in a channel that does not exist yet

    @rule()
    def publish(self) -> None:
        self.world.publish()

    @precondition(lambda self: "ch_later" not in self.world.names)
    @rule()
    def create_the_channel_that_was_named_before_it_existed(self) -> None:
        self.world.commit([message("a", "t1"), self.world.channel("later"), message("later", "t3")])

    @precondition(lambda self: len(self.readers) < 5)
    @rule(after=st.integers(0, 12), wanted=filters)
    def subscribe(self, after: int, wanted: tuple) -> None:
        self.readers.append(Reader(self.world, after, *wanted))

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), step=st.sampled_from(["answer", "fill", "drain"]))
    def happens(self, data: st.DataObject, step: str) -> None:
        getattr(data.draw(st.sampled_from(self.readers)), step)()

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), writes=st.integers(1, 3))
    def fills_up_soon(self, data: st.DataObject, writes: int) -> None:
        data.draw(st.sampled_from(self.readers)).writes_until_full = writes

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        self.readers.remove(reader)
        reader.subscriber.closed()
        received = list(reader.received)
        reader.answer()
        reader.drain()
        assert reader.received == received, "nothing is written to a connection that is gone"
        assert reader.waiting == 0

    @invariant()
    def each_has_a_prefix_of_what_it_wants(self) -> None:
        for reader in self.readers:
            assert reader.received == reader.expected[: len(reader.received)]

    @invariant()
    def memory_is_bounded(self) -> None:
        for reader in self.readers:
            assert reader.waiting <= self.world.feed.queue_max

    @invariant()
    def groups_hold_exactly_the_open_subscribers(self) -> None:
        grouped = [subscriber for group in self.world.feed._groups.values() for subscriber in group]
        assert sorted(map(id, grouped)) == sorted(id(reader.subscriber) for reader in self.readers)
        assert all(
            subscriber.wanted == wanted for wanted, group in self.world.feed._groups.items() for subscriber in group
        )
        assert all(self.world.feed._groups.values()), "a group without subscribers is forgotten"

    def teardown(self) -> None:
        for _ in range(len(self.world.log)):
            self.world.publish()
        for reader in self.readers:
            settle(reader)
            assert reader.received == reader.expected
            assert reader.subscriber.phase == "live"
            reader.subscriber.closed()
        assert self.world.feed._groups == {}
        assert self.world.feed.backlog() == 0


Readers.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
test_gate_c_random_interleavings_of_commits_reads_and_full_sockets_lose_and_repeat_nothing = Readers.TestCase


def test_subscribers_with_the_same_filter_get_the_same_bytes_object() -> None:
    """An event is encoded once, whatever the number of subscribers."""
    world = World(queue_max=3, batch_max=10)
    written: list[bytes] = []

    class Keeping(Reader):
        def write(self, data: bytes) -> None:
            written.append(data)

    for _ in range(3):
        Keeping(world, 0, ["ch_a"], [])
    world.commit([message("a", "t1"), message("b", "t1"), message("a", "t2")])
    world.publish()
    assert len(written) == 3
    assert written[0] is written[1] is written[2]


def test_a_feed_without_subscribers_encodes_nothing() -> None:
    class Unreadable:
        event_id = 7

        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"{name} was looked at")

    feed = Feed(0, 10)
    feed.publish([Unreadable()])  # type: ignore[list-item]
    assert feed.latest == 7


def test_a_subscriber_that_falls_behind_goes_back_to_replay_from_the_last_event_it_was_sent() -> None:
    world = World(queue_max=2, batch_max=10)
    reader = Reader(world, 0, None, [])
    reader.fill()
    for _ in range(3):
        world.commit([message("a", "t1")])
        world.publish()
    assert reader.subscriber.phase == "behind"
    assert reader.waiting == 0
    assert world.feed.backlog() == 3
    reader.drain()
    assert reader.asked == (0, 3, None)
    reader.answer()
    assert reader.received == [1, 2, 3]
    assert reader.subscriber.phase == "live"


def test_a_cursor_beyond_the_log_loses_nothing_that_is_published_while_the_socket_is_full() -> None:
    world = World(queue_max=1, batch_max=10)
    world.commit([message("a", "t1")])
    world.publish()
    reader = Reader(world, 1_000, None, [])
    reader.fill()
    for _ in range(3):
        world.commit([message("a", "t1")])
        world.publish()
    settle(reader)
    assert reader.received == [2, 3, 4]
