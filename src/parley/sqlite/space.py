"""Giving space back to the disk.

What is deleted frees pages, and SQLite keeps them in the file for what comes next. A file that was made with
incremental vacuum gives them back some at a time, in transactions that hold up nobody for long. Pages that are only
partly empty stay: those take a whole ``VACUUM``, which writes the file anew while no other write can be made.
"""

from typing import Final

import apsw

INCREMENTAL: Final = 2
PAGES_AT_ONCE: Final = 128
"""Half a megabyte: a few milliseconds of the writer's time."""
_TEMP_STORE_FILE: Final = 1


def gives_back(connection: apsw.Connection) -> bool:
    """Whether the file was made, or made over, to give pages back."""
    return _number(connection, "auto_vacuum") == INCREMENTAL


def give_back(connection: apsw.Connection, pages: int = PAGES_AT_ONCE) -> bool:
    """Inside a transaction: gives up to so many free pages back. Whether there are more."""
    connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
    return gives_back(connection) and _number(connection, "freelist_count") > 0


def compact(connection: apsw.Connection) -> None:
    """Outside of a transaction: writes the file anew, without a gap, as one that gives pages back.

    The copy that is made on the way is a file: in memory it could be more than a process may have.
    """
    temp_store = _number(connection, "temp_store")
    connection.execute(f"PRAGMA temp_store={_TEMP_STORE_FILE}").fetchall()
    try:
        connection.execute(f"PRAGMA auto_vacuum={INCREMENTAL}").fetchall()
        connection.execute("VACUUM").fetchall()
    finally:
        connection.execute(f"PRAGMA temp_store={temp_store}").fetchall()


def _number(connection: apsw.Connection, pragma: str) -> int:
    return int(str(connection.execute(f"PRAGMA {pragma}").fetchall()[0][0]))
