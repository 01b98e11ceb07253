"""A world for the client's logic: steps are answered from a script, and what was asked is kept."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from parley.client.steps import Exited, HubAddress, Outcome, Pause, Reply, Request, Spawn, Step, Steps
from parley.core.errors import ConnectionFailed, ParleyError
from parley.wire.answers import Health, error_body

T = TypeVar("T")

ADDRESS = HubAddress("http://127.0.0.1:4000", "token-one", "db", "instance")
Answers = Callable[[Request], Reply | ConnectionFailed]


class World:
    """Carries steps out without a network or a clock."""

    def __init__(self, answers: Answers, exit_code: int = 0, stderr: str = "") -> None:
        self.answers = answers
        self.exits = Exited(exit_code, stderr)
        self.requests: list[Request] = []
        self.pauses: list[float] = []
        self.spawned: list[tuple[str, ...]] = []

    def run(self, steps: Steps[T]) -> T:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                return done.value
            outcome = self._outcome(step)

    def _outcome(self, step: Step) -> Outcome:
        match step:
            case Request():
                self.requests.append(step)
                return self.answers(step)
            case Pause(seconds):
                self.pauses.append(seconds)
                return None
            case Spawn(argv):
                self.spawned.append(argv)
                return self.exits


def script(*answers: Reply | ConnectionFailed) -> Answers:
    """Each answer once, in this order."""
    rest = iter(answers)
    return lambda _: next(rest)


def ok(body: object, status: int = 200) -> Reply:
    return Reply(status, msgspec.json.encode(body))


def refusal(error: ParleyError, retry_after: str | None = None) -> Reply:
    return Reply(error.status, msgspec.json.encode(error_body(error)), retry_after)


def healthy(db_id: str = "db", protocol: str = "v1") -> Reply:
    return ok(Health("ok", "instance", db_id, 1, protocol, 1, 1))
