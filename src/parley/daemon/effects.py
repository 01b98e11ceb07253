"""What a mesh's machines ask their shell to do. The shell does it, and tells the machine what came of it."""

from typing import Any, NamedTuple

from parley.core.errors import LocalError
from parley.daemon.inbox.events import EventKind
from parley.daemon.outbox.sending import Settlement
from parley.daemon.outbox.terms import Terms
from parley.wire.broker import FromDaemon, Notice, Problem, Push


class Connect(NamedTuple):
    """Open a connection; answered by ``on_connected`` or ``on_closed``. An older one is forgotten at once."""


class Transmit(NamedTuple):
    """Send a frame on the connection."""

    frame: FromDaemon


class Disconnect(NamedTuple):
    """Close the connection. What it still says is not told."""

    code: int
    reason: str


class Take(NamedTuple):
    """Take up to so many due rows of the mesh from the outbox; answered by ``on_taken``."""

    limit: int


class Settle(NamedTuple):
    """Write down what became of rows. Nothing waits for it: a crash before it is written only repeats a message."""

    settlements: tuple[Settlement, ...]


class Store(NamedTuple):
    """Store deliveries in the inbox and commit; answered by ``on_stored``. Only then are they acknowledged."""

    pushes: tuple[Push, ...]


class Agree(NamedTuple):
    """Remember what the broker promised."""

    terms: Terms


class Reply(NamedTuple):
    """The answer to something that was asked of the broker, by the asker's token."""

    token: int
    result: Any
    problem: Problem | None


class Tell(NamedTuple):
    """Write an event to the daemon's log."""

    kind: EventKind
    data: dict[str, Any]


class Heed(NamedTuple):
    """The broker tells of something in the mesh. It may be lost, so nothing may hang on it."""

    notice: Notice


class End(NamedTuple):
    """This mesh is over for good: trying again would change nothing, or would push somebody else out."""

    error: LocalError


Effect = Connect | Transmit | Disconnect | Take | Settle | Store | Agree | Reply | Tell | Heed | End
