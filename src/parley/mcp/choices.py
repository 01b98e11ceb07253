"""What a call chose when it was made first, kept so that its repetition means the same things.

A call that names nothing, such as "release all of mine", means what there is at that moment; so does one that gives
back a claim without saying which. Repeated under its key, it must not mean what came since. So the choice is written
down before it is acted upon, one small file for each key in the agents' folder; the hub remembers the key of each
single write, and forgets it after the same time. What the hub refuses leaves no key behind, and no choice.
"""

import hashlib
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from parley.core import untrusted_json
from parley.core.files import write_atomic

KEPT_SECONDS: Final = 7 * 24 * 3600.0
_PREFIX: Final = "chosen-"
_DIGITS: Final = 32
_DIGITS_OF_A_SHARE: Final = 1
_FOLDER_MODE: Final = 0o700


def chosen_before(folder: Path, agent: str, key: str) -> list[str] | None:
    """What this agent's first call with the key chose; None if there was none, or nothing is known of it."""
    with suppress(OSError, msgspec.MsgspecError):
        return untrusted_json.decode(_file(folder, agent, key).read_bytes(), list[str])
    return None


def keep_chosen(folder: Path, agent: str, key: str, chosen: list[str]) -> None:
    """Keeps a choice. Where nothing can be written, a repetition chooses anew."""
    with suppress(OSError):
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        file = _file(folder, agent, key)
        write_atomic(file, msgspec.json.encode(chosen))
        _clear(folder, file.name[: len(_PREFIX) + _DIGITS_OF_A_SHARE])


def forget_chosen(folder: Path, agent: str, key: str) -> None:
    """Drops a choice of which nothing came."""
    with suppress(OSError):
        _file(folder, agent, key).unlink(missing_ok=True)


def _clear(folder: Path, beginning: str) -> None:
    """Drops the old among a share of the files: every share's turn comes, and no call looks at all of them."""
    oldest = time.time() - KEPT_SECONDS
    for old in folder.glob(f"{beginning}*"):
        if old.stat().st_mtime < oldest:
            old.unlink(missing_ok=True)


def _file(folder: Path, agent: str, key: str) -> Path:
    digest = hashlib.sha256(f"{agent}\0{key}".encode()).hexdigest()
    return folder / f"{_PREFIX}{digest[:_DIGITS]}.json"
