"""Query parameters: decoded once, read by name, each mistake named."""

from collections.abc import Sequence
from urllib.parse import parse_qs

from parley.core.errors import InvalidInput


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

    def texts(self, name: str) -> list[str]:
        """All values of a repeatable parameter."""
        return self._values.get(name, [])

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
