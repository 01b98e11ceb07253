"""Lines of an answer that comes in pieces.

Only a line feed ends a line, with or without a carriage return before it. Python's ``splitlines`` takes more for the
end of a line, U+2028 among them, which JSON holds as it is.
"""


class Lines:
    """Bytes go in as they come, whole lines come out."""

    def __init__(self) -> None:
        self._begun = bytearray()
        """The line that has not ended yet."""

    def take(self, data: bytes) -> list[str]:
        """The lines that these bytes end."""
        first, found, rest = data.partition(b"\n")
        self._begun += first
        if not found:
            return []
        whole = [bytes(self._begun), *rest.split(b"\n")]
        self._begun = bytearray(whole.pop())
        return [line.removesuffix(b"\r").decode("utf-8", "replace") for line in whole]
