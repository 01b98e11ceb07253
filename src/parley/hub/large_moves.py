"""Large moves, chunk by chunk.

Each chunk is a write of its own, so other writes pass in between. A caller waits for the whole move; if it goes away,
the move goes on; if the hub stops, it goes on at the next start, and if a write is refused, within a minute. A retry
with the same key gets the whole list.
"""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from parley.core.errors import ParleyError, ShuttingDown
from parley.hub.rules.idempotency import Once
from parley.hub.rules.moves import Moving, continue_move, start_move, unfinished_moves
from parley.wire.answers import MoveResult
from parley.wire.requests import MoveMessage

if TYPE_CHECKING:
    from parley.hub.hub import Hub


class Moves:
    """The moves that are under way."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._under_way: dict[int, asyncio.Task[MoveResult]] = {}

    async def run(self, message_id: str, request: MoveMessage, once: Once | None) -> MoveResult:
        """Moves the selection and returns once all of it is moved."""
        most = self._hub.settings.limits.move_batch_max
        outcome = await self._hub.store.write(lambda tx: start_move(tx, message_id, request, most, once))
        if isinstance(outcome, MoveResult):
            return outcome
        result = await asyncio.shield(self._task(outcome.move_id))
        return msgspec.structs.replace(result, duplicate=outcome.duplicate)

    def resume(self) -> int:
        """Goes on with the moves that a crash, a stop or a refused write interrupted; how many there are."""
        interrupted = [each for each in self._hub.store.read(unfinished_moves) if each not in self._under_way]
        for move_id in interrupted:
            self._task(move_id)
        return len(interrupted)

    def _task(self, move_id: int) -> "asyncio.Task[MoveResult]":
        task = self._under_way.get(move_id)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._finish(move_id))
            self._under_way[move_id] = task
            task.add_done_callback(lambda done: self._ended(move_id, done))
        return task

    async def _finish(self, move_id: int) -> MoveResult:
        most = self._hub.settings.limits.move_batch_max
        while True:
            if self._hub.in_flight.closing:
                raise ShuttingDown("The hub is shutting down; the move goes on at its next start")
            outcome = await self._hub.store.write(lambda tx: continue_move(tx, move_id, most))
            if not isinstance(outcome, Moving):
                return outcome

    def _ended(self, move_id: int, task: "asyncio.Task[MoveResult]") -> None:
        del self._under_way[move_id]
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ParleyError):
            self._hub.log.warning("move_interrupted", move_id=move_id, code=error.code)
        elif error is not None:
            self._hub.log.error("move_failed", move_id=move_id, exc_info=error)
