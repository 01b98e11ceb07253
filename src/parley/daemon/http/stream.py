"""``GET /v1/events``: the daemon's log as server-sent events, from a cursor on, then as it grows.

Each event's id is its number in the log, so ``Last-Event-ID`` resumes after it, also on another connection and after a
restart. Without one the stream begins with what comes next. A reader that is too slow is told so by ``lagged``, and is
served from the log until it has caught up: nothing is left out in silence.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, NamedTuple

from parley.core.errors import CursorExpired, InvalidInput
from parley.daemon.feed import Follower
from parley.daemon.http.door import session_of
from parley.daemon.http.messages import slug_of
from parley.daemon.http.views import event_view
from parley.daemon.inbox.events import DaemonEvent, events_after, newest_event, oldest_event
from parley.daemon.inbox.reading import InboxMessage, messages_at
from parley.daemon.sessions import mark_of
from parley.serve.endpoint import Answer, Call
from parley.serve.params import whole_number

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon

KEEPALIVE_SECONDS: Final = 15.0
REPLAY_BATCH: Final = 200
_LAGGED: Final = b'event: lagged\ndata: {"reason": "too slow; what follows is read from the log"}\n\n'
_HEADERS: Final = ((b"cache-control", b"no-cache, no-transform"), (b"x-accel-buffering", b"no"))


class Scope(NamedTuple):
    """What a stream shows: one mesh or all, and without what is for other sessions than this."""

    mesh_id: str | None
    session: str | None

    def shows(self, message: InboxMessage | None) -> bool:
        """Whether the stream's reader is meant, or nobody in particular."""
        meant = None if message is None else mark_of(message.meta).to
        return self.session is None or meant in (None, self.session)


async def get_events(daemon: "Daemon", call: Call) -> Answer:
    cursor = _cursor(daemon, call)
    session = session_of(daemon, call)
    mesh = call.query.get("mesh") or (session.mesh if session else None)
    mesh_id = None if mesh is None else daemon.memberships.get(mesh).mesh_id
    follower = daemon.feed.follow()
    stream = _stream(daemon, follower, cursor, Scope(mesh_id, None if session is None else session.session_id))
    return Answer(200, b"", b"text/event-stream; charset=utf-8", _HEADERS, stream)


def _cursor(daemon: "Daemon", call: Call) -> int:
    given = call.headers.get(b"last-event-id", call.query.get("after", "").encode()).decode("latin-1")
    newest = daemon.store.read_inbox(newest_event)
    if not given:
        return newest
    cursor = whole_number(given)
    if cursor is None or cursor > newest:
        raise InvalidInput("Last-Event-ID is not the number of an event of this daemon", field="Last-Event-ID")
    oldest = daemon.store.read_inbox(oldest_event)
    if cursor > 0 and cursor + 1 < (newest + 1 if oldest is None else oldest):
        raise CursorExpired("The events after this one were forgotten", oldest_cursor=oldest, newest_cursor=newest)
    return cursor


async def _stream(daemon: "Daemon", follower: Follower, cursor: int, scope: Scope) -> AsyncIterator[bytes]:
    try:
        yield f": connected\nid: {cursor}\n\n".encode()  # so that a reader can resume before the first event, too
        while True:
            if follower.caught_up():
                yield _LAGGED
            more = True
            while more:
                batch = daemon.store.read_inbox(lambda db, after=cursor: events_after(db, after, REPLAY_BATCH))
                more = len(batch) == REPLAY_BATCH  # what is added to the log from now on wakes the follower
                if batch:
                    cursor = batch[-1].event_id
                    yield _rendered(daemon, batch, scope)
            try:
                if not await follower.wait(KEEPALIVE_SECONDS):
                    return
            except TimeoutError:
                yield b": keepalive\n\n"
    finally:
        daemon.feed.leave(follower)


def _rendered(daemon: "Daemon", batch: list[DaemonEvent], scope: Scope) -> bytes:
    wanted = [event for event in batch if scope.mesh_id is None or event.mesh_id in (None, scope.mesh_id)]
    seqs = [event.inbox_seq for event in wanted if event.inbox_seq is not None]
    messages = daemon.store.read_inbox(lambda db: messages_at(db, seqs)) if seqs else {}
    return b"".join(
        event_view(
            event,
            None if event.inbox_seq is None else messages.get(event.inbox_seq),
            None if event.mesh_id is None else slug_of(daemon, event.mesh_id),
        )
        for event in wanted
        if scope.shows(None if event.inbox_seq is None else messages.get(event.inbox_seq))
    )
