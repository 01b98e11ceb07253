"""One call from its description to its answer, retried while that can help.

Every request may be repeated: a read changes nothing and a mutation carries an idempotency key. So a lost connection
and a 429 or 503 are tried again, after the wait that the hub asked for and a jittered backoff, until the call's
patience is used up. Patience counts the waits alone and needs no clock. Everything else is raised at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from parley.client.backoff import CALL_BACKOFF, Backoff, Random
from parley.client.call import Call, check_agent, check_key
from parley.client.refusals import answer_of
from parley.client.steps import HubAddress, Pause, Reply, Request, Steps, exchange
from parley.core.errors import InvalidAuth, ParleyError, Unavailable
from parley.core.wire_errors import UnknownRefusal

T = TypeVar("T")

SOCKET_TRIED_EVERY: Final = 16
"""Calls through files after which the hub's socket is tried again: it may have been too busy to answer only once."""

Locate = Callable[[], Steps[HubAddress]]
"""Finds the hub and checks that it is the right one. Raises ``HubNotRunning``."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one call is retried, and how its waits grow."""

    seconds: float = 30.0
    backoff: Backoff = CALL_BACKOFF


class Hub:
    """The hub as a client knows it: the address it last answered at, found again whenever that stops working."""

    def __init__(self, locate: Locate, *, agent: str | None, patience: Patience, random: Random) -> None:
        self._locate = locate
        self.agent = agent
        """The name under which requests are made; each is a sign of life of that agent."""
        self.headers: dict[str, str] = {}
        """What every request carries besides."""
        self._patience = patience
        self._random = random
        self._met = False
        self._address: HubAddress | None = None
        self._calls_by_file = 0

    def reach(self) -> Steps[HubAddress]:
        """The hub's address, looked up and checked anew. A name that cannot be told to it is refused before."""
        check_agent(self.agent, "agent", "PARLEY_AGENT")
        self._address = None
        address = replace((yield from self._locate()), agent=self.agent)
        self._address, self._met = address, True
        return address

    def perform(self, call: Call[T]) -> Steps[T]:
        """The answer, or the error of the product's tree that the hub gave or the network stands for."""
        check_agent(self.agent, "agent", "PARLEY_AGENT")
        check_key(call.idempotency_key)
        if not self._met:
            # A hub that this client never met is not waited for: that would turn "start it" into a long silence.
            yield from self.reach()
        waited, failures = 0.0, 0
        while True:
            try:
                return (yield from self._attempt(call))
            except ParleyError as error:
                failures += 1
                wait = _asked_wait(error) + self._patience.backoff.delay(failures, self._random)
                waited += wait
                if not error.transient or waited > self._patience.seconds:
                    raise
            yield Pause(wait)

    def _attempt(self, call: Call[T]) -> Steps[T]:
        address = self._address or (yield from self.reach())
        if address.socket_url is not None:
            address = yield from self._by_socket_if_it_works(address)
        outcome = yield from exchange(self._request(call, address))
        if isinstance(outcome, Reply) and outcome.status == InvalidAuth.status:
            renewed = yield from self.reach()  # the token may have been rotated since it was read
            if renewed.token != address.token:
                outcome = yield from exchange(self._request(call, renewed))
        if not isinstance(outcome, Reply):
            # Something else may listen there by now; it is not sent the token before it was checked.
            self._address = None
            raise outcome
        return answer_of(call, outcome)

    def _by_socket_if_it_works(self, by_file: HubAddress) -> Steps[HubAddress]:
        """The hub where it listens, if it answers there again; now and then that is tried."""
        self._calls_by_file = (self._calls_by_file + 1) % SOCKET_TRIED_EVERY
        if self._calls_by_file != 0:
            return by_file
        answered = yield from exchange(Request("GET", f"{by_file.socket_url}/health", {}))
        return (yield from self.reach()) if isinstance(answered, Reply) else by_file

    def _request(self, call: Call[T], address: HubAddress) -> Request:
        headers = dict(self.headers)
        if address.token is not None:
            headers["Authorization"] = f"Bearer {address.token}"
        if self.agent is not None:
            headers["X-Parley-Agent"] = self.agent
        if call.idempotency_key is not None:
            headers["Idempotency-Key"] = call.idempotency_key
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        return Request(call.method, address.base_url + call.path, headers, call.body)


def _asked_wait(error: ParleyError) -> float:
    return error.retry_after_seconds if isinstance(error, Unavailable | UnknownRefusal) else 0.0
