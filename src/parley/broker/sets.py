"""A statement for one row of values as one for many of them, in PostgreSQL's words.

Rules write SQL for one row, with ``?`` for a value. Over a network each statement is a journey, so the store makes one
of many: the values travel as arrays, one for each mark, and the marks become columns of ``given``, a table that the
arrays are spread into. ``SELECT`` is run beside each row of it, and ``INSERT``, ``UPDATE`` and ``DELETE`` take their
values from it. The text depends on the statement and the types alone, so that the server plans it once.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, LiteralString, cast

from parley.broker.tx import Row

_TYPES: Final[dict[type, str]] = {str: "text", int: "bigint", bytes: "bytea"}
_VALUES: Final = " VALUES ("


def columns_of(rows: Sequence[Row]) -> tuple[tuple[list[Any], ...], tuple[str | None, ...]]:
    """The values mark by mark, and the type of each; None where no row has a value."""
    columns = tuple([row[mark] for row in rows] for mark in range(len(rows[0])))
    return columns, tuple(_type_of(column) for column in columns)


@lru_cache(maxsize=1024)
def select_for_each(sql: str, types: tuple[str | None, ...]) -> LiteralString:
    """Gives the rows of the statement for all given rows, each behind the number of its given row, from 1."""
    inner = _marked(sql, types)
    return cast("LiteralString", f"SELECT given.n, found.* FROM {_given(types)} CROSS JOIN LATERAL ({inner}) AS found")


@lru_cache(maxsize=1024)
def change_for_each(sql: str, types: tuple[str | None, ...]) -> LiteralString:
    """Does the statement to all given rows, in their order where it inserts."""
    marked, given = _marked(sql, types), _given(types)
    if marked.startswith("INSERT"):
        head, _, rest = marked.partition(_VALUES)
        end = _closing(rest)
        text = f"{head} SELECT {rest[:end]} FROM {given} ORDER BY given.n{rest[end + 1 :]}"
    elif marked.startswith("UPDATE"):
        text = marked.replace(" WHERE ", f" FROM {given} WHERE ", 1)
    else:
        text = marked.replace(" WHERE ", f" USING {given} WHERE ", 1)
    return cast("LiteralString", text)


def _type_of(column: list[Any]) -> str | None:
    return next((_TYPES[type(value)] for value in column if value is not None), None)


def _given(types: tuple[str | None, ...]) -> str:
    arrays = ", ".join(f"%s::{each or 'text'}[]" for each in types)
    names = ", ".join(f"v{number}" for number in range(len(types)))
    return f"unnest({arrays}) WITH ORDINALITY AS given ({names}, n)"


def _marked(sql: str, types: tuple[str | None, ...]) -> str:
    """The statement with columns in the place of its marks. A mark without a value fits every type."""
    first, *rest = sql.replace("%", "%%").split("?")
    marks = (f"given.v{number}" if each else "NULL" for number, each in enumerate(types))
    return first + "".join(f"{mark}{part}" for mark, part in zip(marks, rest, strict=True))


def _closing(text: str) -> int:
    """Where the bracket ends that was opened before the text."""
    depth = 1
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position
    raise ValueError(text)
