"""What a call is: one request of the API described as a value, and the parts that descriptions are made of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from parley.core import limits
from parley.core.errors import InvalidInput

if TYPE_CHECKING:
    import apsw

T = TypeVar("T")


class Caller(NamedTuple):
    """What a client knows about itself, for the calls it makes."""

    sender: str | None
    new_key: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request of the API and the type of its answer."""

    method: str
    path: str
    answer: type[T]
    body: bytes | None = None
    idempotency_key: str | None = None
    waits_seconds: float = 0.0
    """How long the server is asked to wait before it answers."""


@dataclass(frozen=True, slots=True)
class Read(Call[T]):
    """A read: a call of the API, or a function of an open database."""

    from_file: "Callable[[apsw.Connection], T] | None" = None


def segment(name: str) -> str:
    """An id as one segment of a path, whatever it holds."""
    # A segment of dots is a step through the path to whoever reads it; written like this it stays a name.
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def mutation(
    caller: Caller, method: str, path: str, answer: type[T], body: msgspec.Struct, idempotency_key: str | None
) -> Call[T]:
    """A change, with an idempotency key in any case."""
    return Call(method, path, answer, encoded(body), idempotency_key or caller.new_key())


def encoded(body: msgspec.Struct) -> bytes:
    """A request's body."""
    # An absent member is left out: Agentlip's hub takes an explicit null for a value.
    return msgspec.json.encode({name: value for name, value in msgspec.to_builtins(body).items() if value is not None})


def own_name(caller: Caller, given: str | None, what: str) -> str:
    """The name that was given, or the client's own. Raises ``InvalidInput`` without either."""
    name = given if given is not None else caller.sender
    if name is None:
        raise InvalidInput(f"Who is it from? Give {what}=, or make the client with sender=", field=what)
    return name


def check_limit(limit: int) -> None:
    """Refuses what a hub would refuse."""
    if not 1 <= limit <= limits.PAGE_LIMIT_MAX:
        raise InvalidInput(f"limit must be between 1 and {limits.PAGE_LIMIT_MAX}", field="limit")


def check_key(key: str | None) -> None:
    """Refuses an idempotency key that a hub would refuse, or that no header can carry."""
    if key is not None and (len(key) > limits.IDEMPOTENCY_KEY_CHARS_MAX or not _is_printable(key) or " " in key):
        words = f"1 to {limits.IDEMPOTENCY_KEY_CHARS_MAX} printable ASCII characters without blanks"
        raise InvalidInput(f"idempotency_key must be {words}", field="idempotency_key")


def check_header(text: str | None, name: str) -> None:
    """Refuses what no header can carry."""
    if text is not None and (not text or not _is_printable(text) or text != text.strip()):
        raise InvalidInput(f"{name} must be printable ASCII characters, without blanks around them", field=name)


def check_agent(name: str | None, *given_by: str) -> None:
    """Refuses an agent's name that no header can carry; whether it is a good one, the hub says."""
    if name is not None and (not _is_printable(name) or name != name.strip()):
        words = "letters, digits, '.', '_' and '-', and begin with a letter or a digit"
        raise InvalidInput(f"The agent's name in {' or '.join(given_by)} must be {words}", field=given_by[0])


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def query_text(**parameters: object) -> str:
    """The query string of the parameters that are given."""
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in parameters.items()
        if value is not None
    }
    text = urlencode(given, doseq=True)
    return f"?{text}" if text else ""
