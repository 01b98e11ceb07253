"""Sending what is in the outbox of one mesh, as a machine without a socket or a database.

While the link is ready, up to a window of rows is in flight. A row is settled by the broker's answer and by nothing
else: accepted is done, a problem that says it will pass backs off, any other kills the row. No answer in time is a
problem that passes. Nothing is taken from the outbox while the link is down, and a row that backs off stands in no
other's way.

A row that finds room and nobody waiting before it is written as in flight from the start, and sent once it is on disk:
to find it again in the outbox would cost more than to write it did.
"""

from typing import Final, NamedTuple

from parley.core.backoff import Backoff, Jitter
from parley.core.broker_errors import KeyEpochOver
from parley.daemon.effects import Effect, Settle, Take, Tell, Transmit
from parley.daemon.instant import Instant
from parley.daemon.outbox.rows import OutboxRow, send_frame
from parley.daemon.outbox.sending import RETRY_MS_MAX, BackOff, Dead, Done, Due, SealAgain
from parley.wire.broker import Accepted, RefusedSend

ANSWER_SECONDS: Final = 15.0
TRANSIENT_STATUS: Final = frozenset({408, 425, 429})
RATE_LIMITED: Final = 429
KEY_EPOCH_OVER: Final = KeyEpochOver.code
EPOCH_MS: Final = 500
"""When to send again what was sealed under a key that the broker takes no more: the new one is on its way."""


class _Flight(NamedTuple):
    attempts: int
    deadline: float


class Drain:
    """Told what happens, answers with what to do. ``deadline`` is when it wants ``on_timer`` next."""

    def __init__(self, backoff: Backoff, jitter: Jitter) -> None:
        self._backoff = backoff
        self._jitter = jitter
        self._ready = False
        self._window = 0
        self._taking = False
        self._admitted = 0
        self._flights: dict[str, _Flight] = {}
        """In the order of their deadlines, as each is given the same time."""
        self._due_at: float | None = None
        self._held_until = float("-inf")

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    @property
    def deadline(self) -> float | None:
        """The next answer that is overdue, or the next row that is due."""
        if not self._ready:
            return None
        overdue_at = next(iter(self._flights.values())).deadline if self._flights else None
        if self._due_at is None or self._taking or self._room <= 0:
            return overdue_at
        due_at = max(self._due_at, self._held_until)
        return due_at if overdue_at is None else min(due_at, overdue_at)

    def tune(self, backoff: Backoff) -> None:
        """Other waits from now on."""
        self._backoff = backoff

    def on_ready(self, window: int, now: Instant) -> list[Effect]:
        """The link takes messages; so many at once."""
        self._ready, self._window, self._held_until = True, max(1, window), float("-inf")
        return self.wake(now)

    def on_lost(self, now: Instant) -> list[Effect]:
        """The link is gone. Whether the broker has what was in flight is not known, so all of it is sent again."""
        self._ready, self._due_at = False, None
        lost = [
            BackOff(name, now.ms + self._backoff.wait_ms(1, self._jitter), "the connection was lost")
            for name in self._flights
        ]
        self._flights.clear()
        return [Settle(tuple(lost))] if lost else []

    def wake(self, now: Instant) -> list[Effect]:
        """A new row is in the outbox. If rows are being taken just now, it may not be among them."""
        self._expect(now.at)
        return self._take(now)

    def admit(self, now: Instant) -> bool:
        """Whether a row that is about to be written is to be so as in flight. If it is, ``on_admitted`` must follow."""
        waiting = self._due_at is not None and self._due_at <= now.at
        if not self._ready or self._taking or waiting or self._room <= 0 or now.at < self._held_until:
            return False
        self._admitted += 1
        return True

    def on_admitted(self, row: OutboxRow | None, now: Instant) -> list[Effect]:
        """The row is on disk, or never will be (None). If the link went down meanwhile, it goes back."""
        self._admitted -= 1
        if row is None:
            return self._take(now)
        if not self._ready:
            return [Settle((BackOff(row.client_message_id, now.ms, "the connection was lost"),))]
        return [self._send(row, now)]

    def on_taken(self, due: Due, now: Instant) -> list[Effect]:
        """Rows that are marked as in flight in the outbox. If the link went down meanwhile, they go back."""
        self._taking = False
        effects: list[Effect] = [
            Tell("outbox_dead", {"client_message_id": name, "reason": "expired"}) for name in due.expired
        ]
        effects += [
            Tell("outbox_dead", {"client_message_id": dead.client_message_id, "reason": dead.error})
            for dead in due.hopeless
        ]
        if not self._ready:
            back = [BackOff(row.client_message_id, now.ms, "the connection was lost") for row in due.rows]
            return [*effects, Settle(tuple(back))] if back else effects
        effects += [self._send(row, now) for row in due.rows]
        if due.next_ms is not None:
            self._expect(min(now.later(due.next_ms), now.at + RETRY_MS_MAX / 1000))
        return [*effects, *self._take(now)]

    def on_accepted(self, frame: Accepted, now: Instant) -> list[Effect]:
        """The broker has the message, whether or not an answer was still expected."""
        self._flights.pop(frame.client_message_id, None)
        done = Done(frame.client_message_id, frame.broker_message_id, frame.history_id)
        told = Tell(
            "outbox_done",
            {
                "client_message_id": frame.client_message_id,
                "broker_message_id": frame.broker_message_id,
                "history_id": frame.history_id,
                "duplicate": frame.duplicate,
                "history_available": frame.history_available,
                "recipients": frame.recipients,
            },
        )
        return [Settle((done,)), told, *self._take(now)]

    def on_refused(self, frame: RefusedSend, now: Instant) -> list[Effect]:
        """The broker did not take the message: for now, or for good."""
        flight = self._flights.pop(frame.client_message_id, None)
        if flight is None:
            return self._take(now)  # given up on: its row is pending already, and has its next try
        problem = frame.problem
        error = f"{problem.code}: {problem.error}"
        if problem.code == KEY_EPOCH_OVER:
            self._expect(now.at + EPOCH_MS / 1000)
            return [Settle((SealAgain(frame.client_message_id, now.ms + EPOCH_MS, error),)), *self._take(now)]
        if not (problem.transient or problem.status in TRANSIENT_STATUS or problem.status >= 500):
            told = Tell("outbox_dead", {"client_message_id": frame.client_message_id, "reason": error})
            return [Settle((Dead(frame.client_message_id, error),)), told, *self._take(now)]
        wait_ms = self._backoff.wait_ms(flight.attempts, self._jitter)
        if frame.retry_after_ms is not None:
            wait_ms = max(wait_ms, frame.retry_after_ms)
        wait_ms = min(wait_ms, RETRY_MS_MAX)
        if problem.status == RATE_LIMITED and frame.retry_after_ms is not None:
            self._held_until = max(self._held_until, now.at + min(frame.retry_after_ms, RETRY_MS_MAX) / 1000)
        return [self._back_off(frame.client_message_id, wait_ms, error, now), *self._take(now)]

    def on_timer(self, now: Instant) -> list[Effect]:
        """Answers that did not come in time; and rows that are due."""
        effects: list[Effect] = []
        if not self._ready:
            return effects
        for name, flight in list(self._flights.items()):
            if now.at >= flight.deadline:
                del self._flights[name]
                wait_ms = self._backoff.wait_ms(flight.attempts, self._jitter)
                effects.append(self._back_off(name, wait_ms, "the broker did not answer in time", now))
        return [*effects, *self._take(now)]

    @property
    def _room(self) -> int:
        return self._window - len(self._flights) - self._admitted

    def _take(self, now: Instant) -> list[Effect]:
        """Asks for rows if there is room, one may be due, and the broker has not asked for a pause."""
        due_at = self._due_at
        if not self._ready or self._taking or self._room <= 0 or due_at is None:
            return []
        if now.at < max(due_at, self._held_until):
            return []
        self._taking, self._due_at = True, None
        return [Take(self._room)]

    def _expect(self, at: float) -> None:
        """A row will be due then; also when one is due before."""
        self._due_at = at if self._due_at is None else min(self._due_at, at)

    def _send(self, row: OutboxRow, now: Instant) -> Effect:
        self._flights.pop(row.client_message_id, None)
        self._flights[row.client_message_id] = _Flight(row.attempts + 1, now.at + ANSWER_SECONDS)
        return Transmit(send_frame(row))

    def _back_off(self, name: str, wait_ms: int, error: str, now: Instant) -> Effect:
        self._expect(now.at + wait_ms / 1000)
        return Settle((BackOff(name, now.ms + wait_ms, error),))
