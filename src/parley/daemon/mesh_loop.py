"""All that a daemon does for one mesh, as one machine: the link, the drain, what arrives, and what is asked.

The shell around it owns a socket and two databases. It tells the machine what happened, does what the machine answers,
in order, and calls ``on_timer`` when ``deadline`` has come. Each mesh has a machine and a shell of its own, so that
none can stand in another's way.
"""

from collections.abc import Iterable
from typing import Any, Final

from parley.core.backoff import Jitter
from parley.daemon.drain import Drain
from parley.daemon.effects import Effect, Heed, Reply, Store, Transmit
from parley.daemon.instant import Instant
from parley.daemon.link import Link, LinkSettings, Member
from parley.daemon.outbox.rows import OutboxRow
from parley.daemon.outbox.sending import Due
from parley.wire.broker import (
    Accepted,
    Answer,
    DeliveryAck,
    DeliveryAcked,
    FromBroker,
    Notice,
    Problem,
    Push,
    RefusedSend,
    Request,
)

ASK_SECONDS: Final = 15.0
_UNREACHABLE: Final = Problem("MESH_UNREACHABLE", "The mesh's broker cannot be reached", 502, True)
_TIMED_OUT: Final = Problem("MESH_UNREACHABLE", "The mesh's broker did not answer in time", 502, True)


class MeshLoop:
    """Told what happens, answers with what to do. ``deadline`` is when it wants ``on_timer`` next."""

    def __init__(self, member: Member, settings: LinkSettings, jitter: Jitter) -> None:
        self.link = Link(member, settings, jitter)
        self.drain = Drain(settings.backoff, jitter)
        self._asked: dict[int, float] = {}
        self._tokens = 0

    @property
    def ready(self) -> bool:
        return self.link.state == "ready"

    @property
    def deadline(self) -> float | None:
        link, drain = self.link.deadline, self.drain.deadline
        soonest = link if drain is None or (link is not None and link < drain) else drain
        if self._asked:
            answer = next(iter(self._asked.values()))  # of those that were asked for first
            return answer if soonest is None else min(soonest, answer)
        return soonest

    def tune(self, settings: LinkSettings) -> None:
        """Other settings, from the next wait and the next negotiation on."""
        self.link.settings = settings
        self.drain.tune(settings.backoff)

    def start(self, now: Instant) -> list[Effect]:
        """Connects; also cuts a wait short."""
        return self.link.start(now)

    def stop(self, now: Instant) -> list[Effect]:
        """Ends in peace. What is in flight is written down as not answered."""
        return [*self.link.stop(), *self._lost(now)]

    def on_connected(self, now: Instant) -> list[Effect]:
        """The socket is open."""
        return self.link.on_connected(now)

    def on_frame(self, frame: FromBroker, now: Instant) -> list[Effect]:
        """A frame of the broker. What comes before its time is ignored: it will come again, or was not meant for us."""
        was_ready = self.ready
        effects = self.link.on_frame(frame, now)
        if not was_ready:
            return [*effects, *self._begin(now)] if self.ready else effects
        if not self.ready:
            return [*effects, *self._lost(now)]
        match frame:
            case Accepted():
                return self.drain.on_accepted(frame, now)
            case RefusedSend():
                return self.drain.on_refused(frame, now)
            case Push():
                return [Store((frame,))]
            case Answer():
                return self._answered(frame)
            case Notice():
                return [Heed(frame)]
            case _:
                return effects

    def on_closed(self, code: int | None, reason: str, now: Instant) -> list[Effect]:
        """The connection ended, or could not be made (``code`` None)."""
        return [*self.link.on_closed(code, reason, now), *self._lost(now)]

    def on_timer(self, now: Instant) -> list[Effect]:
        """The deadline has come."""
        effects = self.link.on_timer(now)
        if not self.ready:
            return [*effects, *self._lost(now)]
        overdue = [token for token, deadline in self._asked.items() if now.at >= deadline]
        for token in overdue:
            del self._asked[token]
            effects.append(Reply(token, None, _TIMED_OUT))
        return [*effects, *self.drain.on_timer(now)]

    def on_taken(self, due: Due, now: Instant) -> list[Effect]:
        """Rows that were asked for by ``Take``."""
        return self.drain.on_taken(due, now)

    def admit(self, now: Instant) -> bool:
        """Whether a row that is about to be written is to be so as in flight. If it is, ``on_admitted`` must follow."""
        return self.drain.admit(now)

    def on_admitted(self, row: OutboxRow | None, now: Instant) -> list[Effect]:
        """The row that was admitted is on disk, or never will be (None)."""
        return self.drain.on_admitted(row, now)

    def on_stored(self, stored: Iterable[DeliveryAcked], now: Instant) -> list[Effect]:
        """Deliveries that are on disk now. If the link is gone they come again, and are recognised."""
        return [Transmit(DeliveryAck(list(stored)))] if self.ready else []

    def wake(self, now: Instant) -> list[Effect]:
        """A new row is in the outbox."""
        return self.drain.wake(now)

    def ask(self, method: str, params: dict[str, Any], now: Instant) -> tuple[int, list[Effect]]:
        """Asks the broker something; the answer comes as ``Reply`` with the token, whatever happens."""
        self._tokens += 1
        token = self._tokens
        if not self.ready:
            return token, [Reply(token, None, _UNREACHABLE)]
        self._asked[token] = now.at + ASK_SECONDS
        return token, [Transmit(Request(token, method, params))]

    def _begin(self, now: Instant) -> list[Effect]:
        assert self.link.welcome is not None
        return self.drain.on_ready(self.link.welcome.window, now)

    def _lost(self, now: Instant) -> list[Effect]:
        unanswered = [Reply(token, None, _UNREACHABLE) for token in self._asked]
        self._asked.clear()
        return [*self.drain.on_lost(now), *unanswered]

    def _answered(self, answer: Answer) -> list[Effect]:
        if self._asked.pop(answer.id, None) is None:
            return []
        return [Reply(answer.id, answer.result, answer.problem)]
