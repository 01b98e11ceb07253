"""Asking a transaction, and being told whether it changed anything."""

from typing import Any

import apsw


def rows(db: apsw.Connection, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """All rows of the answer."""
    return db.execute(statement, values).fetchall()


def row(db: apsw.Connection, statement: str, *values: Any) -> tuple[Any, ...] | None:
    """The first row of the answer, if there is one."""
    found = rows(db, statement, *values)
    return found[0] if found else None


def changed(db: apsw.Connection, statement: str, *values: Any) -> bool:
    """Whether the statement itself, without its triggers, changed any row."""
    db.execute(statement, values)
    return db.changes() > 0
