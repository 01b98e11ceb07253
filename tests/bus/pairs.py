"""Two machines that pair, by hand or on sockets."""

from collections.abc import Awaitable, Callable

from parley.bus import Caveats, fingerprint_of
from parley.bus.enrolment import issue_grant, read_request, request_line
from parley.bus.pairing import Attempt, Opened
from parley.core.sealing import public_key
from tests.bus.agents import ADA, NOW, USER

Typed = Callable[[str, Opened], Awaitable[str]]


def asking(seed: bytes = ADA, nonce: bytes = b"a" * 32) -> Attempt:
    """The side of a machine with this key."""
    return Attempt("asks", request_line(seed, host="office", now_ms=NOW).encode(), seed, nonce)


def letting_in(user: bytes = USER, nonce: bytes = b"b" * 32) -> Attempt:
    """The side of the machine with this user key."""
    return Attempt("lets in", public_key(user), user, nonce)


def granted(line: str, user: bytes = USER) -> str:
    """The line of a grant for the machine that made the request."""
    agent_key = bytes.fromhex(read_request(line).agent)
    return issue_grant(user, agent_key, role="builder", caveats=Caveats(), now_ms=NOW).line()


def show(ada: Attempt, bob: Attempt) -> tuple[Opened, Opened]:
    """Both show what they have; what each is shown by the other."""
    bob.receive(ada.commitment())
    ada.receive(bob.commitment())
    to_bob = bob.receive(ada.opening())
    to_ada = ada.receive(bob.opening())
    assert isinstance(to_ada, Opened)
    assert isinstance(to_bob, Opened)
    return to_ada, to_bob


USER_SHOWN = fingerprint_of(public_key(USER))
