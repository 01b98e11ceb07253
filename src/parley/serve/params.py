"""What a request asks for in its query and its idempotency key: decoded once, read by name, each mistake named."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

from parley.core.errors import InvalidInput
from parley.core.limits import IDEMPOTENCY_KEY_CHARS_MAX

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

    def integer(self, name: str, *, default: int, low: int, high: int) -> int:
        """A whole number within bounds."""
        text = self.text(name)
        if text is None:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 18:
            raise InvalidInput(f"{name} must be a whole number", field=name)
        number = int(text)
        if not low <= number <= high:
            raise InvalidInput(f"{name} must be between {low} and {high}", field=name)
        return number

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """One of some words; the first of them if none is given."""
        text = self.text(name) or allowed[0]
        if text not in allowed:
            raise InvalidInput(f"{name} must be one of {', '.join(allowed)}", field=name)
        return text

    def flag(self, name: str, *, default: bool) -> bool:
        """A parameter that is true or false."""
        text = self.text(name)
        if text is None:
            return default
        if text not in _TRUE and text not in _FALSE:
            raise InvalidInput(f"{name} must be true or false", field=name)
        return text in _TRUE


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
