"""Looking for damage in a database, as ``doctor`` and the start of a hub do."""

from typing import Final, NamedTuple

import apsw

PROBLEMS_MAX: Final = 100
"""A damaged file can have millions; a person needs the first few."""


class ForeignKeyViolation(NamedTuple):
    """A row that refers to a row which does not exist. ``rowid`` is None in a table without row ids."""

    table: str
    rowid: int | None
    parent: str


def integrity_check(connection: apsw.Connection, *, quick: bool = False) -> list[str]:
    """What SQLite finds wrong; empty when the file is sound. ``quick`` does not compare indexes with tables."""
    pragma = "quick_check" if quick else "integrity_check"
    try:
        rows = connection.execute(f"PRAGMA {pragma}({PROBLEMS_MAX})").fetchall()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [f"the check itself met damage: {error}"]
    problems = [str(row[0]) for row in rows]
    return [] if problems == ["ok"] else problems


def foreign_key_check(connection: apsw.Connection) -> list[ForeignKeyViolation]:
    """The first rows that break a foreign key; empty when there are none."""
    found: list[ForeignKeyViolation] = []
    for table, rowid, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        found.append(ForeignKeyViolation(str(table), None if rowid is None else int(str(rowid)), str(parent)))
        if len(found) == PROBLEMS_MAX:
            break
    return found
