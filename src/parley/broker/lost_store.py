"""A broker's file that was lost: what lies beside it tells that there was one.

A start that found no file would make an empty one and greet its first owner, as if nobody had ever joined. So it looks
for what only a broker that had a file can have, and leaves the choice to a person.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from parley.core.errors import DatabaseCorrupt

TOKEN_NAME: Final = "creation-token"
_WHAT_TO_DO: Final = (
    "Put the file back, or restore a backup with `parley broker restore`; to begin with an empty one, move what is"
    " named out of the folder."
)


def refuse_lost_store(folder: Path, store: Path) -> None:
    """Raises ``DatabaseCorrupt`` if the file is gone or empty though there was one. The caller holds the lock."""
    if _is_there(store):
        return
    marks = [str(mark) for mark in _marks(folder, store)]
    if marks:
        message = f"{store} is gone or empty, though what lies beside it is not: {', '.join(marks)}"
        refusal = DatabaseCorrupt(message, path=str(store), marks=marks)
        refusal.hint = _WHAT_TO_DO
        raise refusal


def _marks(folder: Path, store: Path) -> Iterator[Path]:
    log = store.with_name(f"{store.name}-wal")
    if os.path.lexists(log):
        yield log
    token = folder / TOKEN_NAME
    if store.parent == folder and token.is_file():  # written once the first broker has made the file
        yield token


def _is_there(store: Path) -> bool:
    """Whether the file holds anything. What cannot be seen is for others to refuse."""
    try:
        return store.stat().st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True
