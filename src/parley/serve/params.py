"""What a request asks for in its query and its idempotency key: decoded once, read by name, each mistake named."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlencode

from parley.core.errors import InvalidInput
from parley.core.limits import IDEMPOTENCY_KEY_CHARS_MAX

D = TypeVar("D", int, None)
W = TypeVar("W", bound=str)
_DIGITS_MAX: Final = 18
"""What a database can count has no more."""
_TRUE: Final = ("true", "1", "yes")
_FALSE: Final = ("false", "0", "no")


class Query:
    """The parameters of one request. Unknown ones are ignored."""

    __slots__ = ("_values",)

    def __init__(self, query_string: bytes) -> None:
        try:
            text = query_string.decode("ascii")
            self._values = parse_qs(text, keep_blank_values=True, errors="strict") if text else {}
        except ValueError as error:
            raise InvalidInput("The query string is not valid percent-encoded UTF-8") from error

    def text(self, name: str) -> str | None:
        """The value, or None. A parameter given twice is a mistake."""
        values = self._values.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise InvalidInput(f"{name} is given more than once", field=name)
        return values[0]

    def get(self, name: str, default: str | None = None) -> Any:
        """The value, or ``default``."""
        text = self.text(name)
        return default if text is None else text

    def texts(self, name: str) -> list[str]:
        """All values of a repeatable parameter."""
        return self._values.get(name, [])

    def changed(self, **changes: str | None) -> str:
        """The query string with other values for some parameters; one whose value is None is left out."""
        values = {**self._values, **{name: [] if text is None else [text] for name, text in changes.items()}}
        return urlencode(values, doseq=True)

    def integer(self, name: str, *, default: D, low: int, high: int) -> int | D:
        """A whole number within bounds."""
        text = self.text(name)
        if text is None:
            return default
        size = whole_number(text.removeprefix("-"))
        if size is None:
            raise InvalidInput(f"{name} must be a whole number", field=name)
        number = -size if text.startswith("-") else size
        if not low <= number <= high:
            raise InvalidInput(f"{name} must be between {low} and {high}", field=name)
        return number

    def choice(self, name: str, allowed: Sequence[W]) -> W:
        """One of some words; the first of them if none is given."""
        text = self.text(name) or allowed[0]
        for word in allowed:
            if word == text:
                return word
        raise InvalidInput(f"{name} must be one of {', '.join(allowed)}", field=name)

    def flag(self, name: str, *, default: bool) -> bool:
        """A parameter that is true or false."""
        text = self.text(name)
        if text is None:
            return default
        if text not in _TRUE and text not in _FALSE:
            raise InvalidInput(f"{name} must be true or false", field=name)
        return text in _TRUE


def whole_number(text: str) -> int | None:
    """A number without a sign, of no more digits than a database can count; None for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX else None


def idempotency_key(header: bytes | None) -> str | None:
    """The key in the header, if it may be one: printable ASCII without blanks."""
    if header is None:
        return None
    if not 1 <= len(header) <= IDEMPOTENCY_KEY_CHARS_MAX or any(not 0x21 <= byte <= 0x7E for byte in header):
        raise InvalidInput(
            f"Idempotency-Key must be 1 to {IDEMPOTENCY_KEY_CHARS_MAX} printable ASCII characters",
            field="Idempotency-Key",
        )
    return header.decode("ascii")
