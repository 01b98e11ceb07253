"""A broker's file that was lost: what lies beside it tells that there was one.

A start that found no file would make an empty one and greet its first owner, as if nobody had ever joined. So each
start leaves a mark beside the file once it is made, and a start that finds the mark without the file leaves the choice
to a person.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from parley.core.errors import DatabaseCorrupt
from parley.core.files import write_atomic

_FILE_MODE: Final = 0o600
_WHAT_TO_DO: Final = (
    "Put the file back, or restore a backup with `parley broker restore`; to begin with an empty one, move what is"
    " named out of the folder."
)


def mark_made(store: Path, broker_id: str) -> None:
    """Says beside the file that it has been made, and whose it is."""
    mark = _mark(store)
    if not mark.exists():
        write_atomic(mark, f"{broker_id}\n".encode(), _FILE_MODE)


def refuse_lost_store(store: Path) -> None:
    """Raises ``DatabaseCorrupt`` if the file is gone or empty though there was one. The caller holds the lock."""
    if _is_there(store):
        return
    marks = [str(mark) for mark in _marks(store)]
    if marks:
        message = f"{store} is gone or empty, though what lies beside it is not: {', '.join(marks)}"
        refusal = DatabaseCorrupt(message, path=str(store), marks=marks)
        refusal.hint = _WHAT_TO_DO
        raise refusal


def _marks(store: Path) -> Iterator[Path]:
    for mark in (store.with_name(f"{store.name}-wal"), _mark(store)):
        if os.path.lexists(mark):
            yield mark


def _mark(store: Path) -> Path:
    return store.with_name(f"{store.name}.id")


def _is_there(store: Path) -> bool:
    """Whether the file holds anything. What cannot be seen is for others to refuse."""
    try:
        return store.stat().st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True
