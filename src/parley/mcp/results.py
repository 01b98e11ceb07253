"""Results: the same content as structured data and as text, never larger together than the configured size.

Some programs show a model the structured content, some the text, so either must be enough. A list is cut between two
of its entries, and says where to go on; an entry that is too large by itself was cut by whoever made it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from parley.core.errors import ParleyError
from parley.mcp.untrusted_text import NOTICE, visible

RESERVED_BYTES: Final = 1_536
"""Of a result, for what is neither an entry nor foreign: the notice, cursors, counts and the protocol's own members."""

DETAIL_ROWS_MAX: Final = 5
"""Of a list in an error's details, in its text: enough to know whom to ask."""
_HINTS: Final = {
    "NOT_FOUND": "Check the id or the name; `read`, `search`, `tasks` and `who` show what there is.",
    "TASK_HELD": "Take another task, ask the holder, or wait until lease_expires_at.",
}
"""For errors whose own hint names commands or options that no tool of the default profile has."""


class Result(NamedTuple):
    """What a tool answers."""

    text: str
    data: dict[str, Any]
    failed: bool = False


class Entry(NamedTuple):
    """One row of a list in both forms."""

    data: dict[str, Any]
    text: str

    @property
    def bytes(self) -> int:
        """What it adds to a result."""
        return encoded(self.data) + encoded(self.text) + 2


def encoded(value: object) -> int:
    """How many bytes a value takes on the wire."""
    return len(msgspec.json.encode(value))


def listing(
    key: str,
    entries: Sequence[Entry],
    *,
    head: Entry,
    bytes_max: int,
    ending: Callable[[int], Mapping[str, Any]],
    newest_first: bool = False,
) -> Result:
    """A list under ``key``, with as many of the entries as fit. ``ending`` tells how to go on after so many of them.

    Entries that come newest first are shown in the order in which they happened; what does not fit are the oldest.
    """
    room = bytes_max - RESERVED_BYTES - head.bytes
    taken = 0
    for entry in entries:
        room -= entry.bytes
        if room < 0:
            break
        taken += 1
    end = {name: value for name, value in ending(taken).items() if value is not None}
    rows = entries[:taken][::-1] if newest_first else entries[:taken]
    data = {"notice": NOTICE, **head.data, key: [entry.data for entry in rows], **end}
    lines = [NOTICE, *filter(None, [head.text]), *(entry.text for entry in rows), facts(end)]
    return Result("\n".join(line for line in lines if line), data)


def done(data: dict[str, Any]) -> Result:
    """The answer of a tool that writes: what it did, in a line of ours."""
    return Result(facts(data), data)


def failure(error: ParleyError) -> Result:
    """An error as the model reads it: what happened, what to do next, and what that is about."""
    details = cast("dict[str, Any]", msgspec.to_builtins(error.details, enc_hook=str))
    hint = _HINTS.get(error.code, error.hint) if error.hint == type(error).hint else error.hint
    data: dict[str, Any] = {"error": str(error), "code": error.code, "transient": error.transient, "hint": hint}
    lines = [f"{error.code}: {' '.join(visible(str(error)).split())}", hint]
    if details:
        data["details"] = details
        lines.append(f"details: {visible(_json(_shortened(details)))}")
    return Result("\n".join(filter(None, lines)), data, failed=True)


def _shortened(details: Mapping[str, Any]) -> dict[str, Any]:
    """Details with the beginning of every list, and how many there are where that is not all."""
    short: dict[str, Any] = {}
    for name, value in details.items():
        short[name] = value
        if isinstance(value, list) and len(rows := cast("list[Any]", value)) > DETAIL_ROWS_MAX:
            short |= {name: rows[:DETAIL_ROWS_MAX], f"{name}_count": len(rows)}
    return short


def facts(data: Mapping[str, Any]) -> str:
    """Our own values on one line, as ``name=value``."""
    return " ".join(f"{name}={visible(_plain(value))}" for name, value in data.items())


def _plain(value: object) -> str:
    return value if isinstance(value, str) and value.isprintable() and " " not in value else _json(value)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
