"""Large moves, chunk by chunk, as rules: what each chunk takes, and what a chunk finds when others were there first."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from parley.core.clock import ManualClock
from parley.core.errors import InvalidInput
from parley.core.fold import differences, fold
from parley.core.ids import IdSource
from parley.core.settings import UrlSettings
from parley.hub.rules.channels import create_channel, create_topic
from parley.hub.rules.messages import create_message
from parley.hub.rules.moves import Moving, continue_move, start_move
from parley.hub.transaction import Tx
from parley.sqlite import open_writer, run_batch
from parley.wire.answers import MoveResult
from parley.wire.requests import CreateChannel, CreateMessage, CreateTopic, MoveMessage
from parley.workspace import queries
from parley.workspace.prepare import prepare
from tests.hub.hubs import workspace_in

BATCH = 3


class World(NamedTuple):
    do: Callable[[Callable[[Tx], Any]], Any]
    topics: list[str]
    messages: list[str]

    def begin(self) -> int:
        """Starts to move everything from the first topic to the second; the number of the move."""
        outcome = self.do(lambda tx: start_move(tx, self.messages[0], MoveMessage(self.topics[1], "all"), BATCH))
        assert isinstance(outcome, Moving)
        return outcome.move_id

    def go_on(self, move_id: int) -> MoveResult | Moving:
        return self.do(lambda tx: continue_move(tx, move_id, BATCH))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    workspace, clock = workspace_in(tmp_path), ManualClock()
    connection = open_writer(workspace.db)
    prepare(connection, workspace, clock=clock, fts=False)
    ids = IdSource()

    def do(rule: Callable[[Tx], Any]) -> Any:
        def write(db: apsw.Connection) -> Any:
            return rule(Tx(db, clock.now_ms(), ids))

        (outcome,) = run_batch(connection, [write])
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    channel = do(lambda tx: create_channel(tx, CreateChannel("c"))).channel.id
    topics = [do(lambda tx, t=title: create_topic(tx, CreateTopic(channel, t))).topic.id for title in ("1", "2", "3")]
    post = CreateMessage(topics[0], "ann", "x")
    messages = [do(lambda tx: create_message(tx, post, UrlSettings())).message.id for _ in range(8)]
    yield World(do, topics, messages)
    assert differences(fold(queries.logged_events(connection)), queries.stored_state(connection)) == []
    connection.close()


def test_a_move_of_eight_takes_three_chunks_and_tells_of_all_events(world: World) -> None:
    move_id = world.begin()
    assert world.go_on(move_id) == Moving(move_id)
    result = world.go_on(move_id)
    assert isinstance(result, MoveResult)
    assert (result.affected_count, result.event_ids) == (8, list(range(13, 21)))


def test_going_on_with_a_finished_move_repeats_its_result(world: World) -> None:
    move_id = world.begin()
    world.go_on(move_id)
    assert world.go_on(move_id) == world.go_on(move_id)


def test_a_move_whose_rest_was_taken_by_another_ends_with_what_it_has(world: World) -> None:
    move_id = world.begin()
    for message_id in world.messages[3:]:
        world.do(lambda tx, m=message_id: start_move(tx, m, MoveMessage(world.topics[2], "one"), BATCH))
    result = world.go_on(move_id)
    assert isinstance(result, MoveResult)
    assert result.affected_count == 3


def test_a_move_that_does_not_exist_is_refused(world: World) -> None:
    with pytest.raises(InvalidInput, match="No such move: 99"):
        world.go_on(99)
