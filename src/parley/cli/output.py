"""What a command prints. stdout is data, stderr is talk.

With ``--json`` the data is one JSON object, with ``--jsonl`` one object a line. For a person at a terminal it is a
table with colour; for another program it is one line per row with tabs between the fields, and never a colour. Text
that somebody else wrote is shown without its control characters, so a message cannot steer the terminal of the person
who reads it.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from parley.core.errors import ParleyError

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MORE: Final = "There are more than these; --limit says how many to show."
_COLORS: Final = {"red": 31, "green": 32, "yellow": 33}


class Output:
    """Where one command's words go."""

    def __init__(self, *, json: bool = False, jsonl: bool = False, color: bool = True) -> None:
        self.json = json
        self.jsonl = jsonl
        self.color = color

    def data(self, payload: Mapping[str, Any], *, rows: str | None = None) -> None:
        """One JSON object with ``status: ok``, indented; as JSON lines it is on one.

        ``rows`` is the member that is a list, if the answer is one: of it, every entry is a line.
        """
        if not self.jsonl:
            sys.stdout.write(json.dumps({"status": "ok", **payload}, indent=2, ensure_ascii=False) + "\n")
            return
        for each in [{"status": "ok", **payload}] if rows is None else payload[rows]:
            sys.stdout.write(json.dumps(each, ensure_ascii=False) + "\n")
        if rows is not None and payload.get("hasMore"):
            self.note(_MORE)

    def listing(self, name: str, entries: Sequence[Any], **more: Any) -> None:
        """A list of things under their name, how many they are, and what else belongs to the answer."""
        self.data({name: entries, "count": len(entries), **more}, rows=name)

    def line(self, text: str, *, sign: str = "", color: str = "") -> None:
        """One line of data for a person, with a sign before it that has a colour at a terminal."""
        if color and self.color and sys.stdout.isatty():
            sign = f"\x1b[{_COLORS[color]}m{sign}\x1b[0m"
        sys.stdout.write(sign + printable(text) + "\n")

    def note(self, text: str) -> None:
        """Talk: what happened, what to do next."""
        sys.stderr.write(printable(text) + "\n")
        sys.stderr.flush()

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str, has_more: bool = False
    ) -> None:
        """Rows for a person or, when piped, for another program; ``empty`` is said when there are none."""
        cells = [[printable("" if cell is None else str(cell)) for cell in row] for row in rows]
        if not cells:
            self.note(empty)
        elif sys.stdout.isatty():
            self._rich_table(columns, cells)
        else:
            for row in cells:
                sys.stdout.write("\t".join(cell.replace("\t", " ").replace("\n", "\\n") for cell in row) + "\n")
        if has_more:
            self.note(_MORE)

    def _rich_table(self, columns: Sequence[str], cells: list[list[str]]) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold" if self.color else "")
        for index, column in enumerate(columns):
            table.add_column(column, style="cyan" if index == 0 and self.color else "", overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        Console(no_color=not self.color, highlight=False).print(table)

    def error(self, error: ParleyError, *, hint: str | None = None) -> None:
        """A failure: one JSON line on stdout for a program, a sentence and what to do on stderr for a person."""
        hint = error.hint if hint is None else hint
        if self.json:
            sys.stdout.write(json.dumps(error_payload(error, hint), ensure_ascii=False) + "\n")
            return
        self.note(f"Error: {error}")
        if hint:
            self.note(hint)


def error_payload(error: ParleyError, hint: str | None = None) -> dict[str, Any]:
    """``{status, error, code, details?, hint}``"""
    payload: dict[str, Any] = {"status": "error", "error": str(error), "code": error.code}
    if error.details:
        payload["details"] = json.loads(json.dumps(error.details, default=str))
    payload["hint"] = error.hint if hint is None else hint
    return payload


def printable(text: str) -> str:
    """The text without characters that a terminal would obey; newline and tab stay."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
