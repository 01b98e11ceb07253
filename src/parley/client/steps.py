"""What the client's logic asks of the outside world, as values.

The logic is written once, as generators that yield steps and receive their outcomes; the blocking and the asynchronous
client differ only in how they carry out a step. An outcome that is a failure is sent in as a value, so that the logic
decides what it means.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeVar

from parley.core.errors import ConnectionFailed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HubAddress:
    """A hub that answered: where it listens, which database it serves, and the token it takes."""

    base_url: str
    token: str | None = field(repr=False)
    db_id: str
    instance_id: str
    agent: str | None = None
    """The name under which this client calls it."""
    socket_url: str | None = None
    """Where the hub listens, if it is asked through files because nothing answered there."""


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request to send. Outcome: ``Reply``, or ``ConnectionFailed`` when no answer came."""

    method: str
    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)
    longer_seconds: float = 0.0
    """How much longer than usual the answer may take, because the server is asked to wait for something."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer, whatever its status."""

    status: int
    body: bytes = field(repr=False)
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait. Outcome: None."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Spawn:
    """A command to run to its end. Outcome: ``Exited``."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exited:
    """How a command ended."""

    code: int
    stderr: str


Step = Request | Pause | Spawn
Outcome = Reply | ConnectionFailed | Exited | None
Steps = Generator[Step, Outcome, T]


def exchange(request: Request) -> Steps[Reply | ConnectionFailed]:
    """One request and its outcome, with the type that this step has."""
    outcome = yield request
    assert isinstance(outcome, Reply | ConnectionFailed)
    return outcome
