"""The folder of a lake, and the mark that says that it is one."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from parley.core.files import write_atomic
from parley.core.pipeline_errors import LakeInvalid, LakeNotFound, LakeTooNew
from parley.pipeline.lake.tables import Table

FORMAT: Final = 2
"""The newest layout that we know; a lake with a larger number was written by a newer Parley."""
FIRST_FORMAT: Final = 1
"""What a new lake has. It is raised when something comes in that an older Parley would misread."""
OWN_FOLDER: Final = "_parley"
MARK: Final = "lake.json"
UNUSABLE: Final = re.compile(r"%[0-9A-Fa-f]{2}|[\\?#\x00-\x1f\x7f]")
"""What delta-rs, to which a path is an address, takes for something else: it would look, or clear up, elsewhere."""
FOLDER_MODE: Final = 0o700
MARK_MODE: Final = 0o644


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake on disk. Tables lie in ``LAYER/NAME``, what is ours alone in ``_parley``."""

    root: str

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The lake in this folder. Raises ``LakeNotFound``, ``LakeInvalid`` or ``LakeTooNew``."""
        root = _usable(folder)
        if not root.exists():
            raise LakeNotFound(f"There is no lake at {root}", lake=str(root))
        found = _format_of(root)
        if found > FORMAT:
            raise LakeTooNew(
                f"The lake at {root} has format {found}; this program knows formats up to {FORMAT}",
                found=found,
                known=FORMAT,
            )
        return cls(str(root))

    @classmethod
    def open_or_create(cls, folder: Path) -> Self:
        """The lake in this folder, made if the folder is empty or does not exist yet."""
        root = _usable(folder)
        try:
            root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            if not any(root.iterdir()):
                (root / OWN_FOLDER).mkdir(mode=FOLDER_MODE, exist_ok=True)
            if not (root / OWN_FOLDER / MARK).exists() and [each.name for each in root.iterdir()] == [OWN_FOLDER]:
                write_atomic(root / OWN_FOLDER / MARK, json.dumps({"format": FIRST_FORMAT}).encode(), MARK_MODE)
        except OSError as error:
            raise LakeInvalid(f"{root} cannot be used: {error.strerror}", lake=str(root)) from error
        return cls.open(root)

    def raise_format(self, least: int) -> None:
        """Makes the lake's format at least this one: an older Parley refuses it from now on."""
        if _format_of(Path(self.root)) < least:
            write_atomic(self.own / MARK, json.dumps({"format": least}).encode(), MARK_MODE)

    @property
    def own(self) -> Path:
        """Where the pipeline keeps what is no table."""
        return Path(self.root) / OWN_FOLDER

    def path(self, table: Table) -> str:
        """The folder of a table."""
        return str(Path(self.root) / table.layer / table.name)


def _format_of(root: Path) -> int:
    mark = root / OWN_FOLDER / MARK
    try:
        said: Any = json.loads(mark.read_bytes())
        return int(said["format"])
    except FileNotFoundError:
        raise LakeInvalid(f"{root} is not a lake: it has no {OWN_FOLDER}/{MARK}", lake=str(root)) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LakeInvalid(f"{mark} cannot be read: {error}", lake=str(root)) from error


def _usable(folder: Path) -> Path:
    """The folder's whole path. Raises ``LakeInvalid`` if tables there, or where its links lead, would not be found."""
    root = folder.absolute()
    found = UNUSABLE.search(str(root)) or UNUSABLE.search(str(root.resolve()))
    if found is None:
        return root
    refused = LakeInvalid(f"{root} cannot be a lake: there is {found[0]!r} in its path", lake=str(root))
    refused.hint = (
        "Name another folder with --lake: no backslash, ?, # or control character may be in its path,"
        " nor % before two hexadecimal digits."
    )
    raise refused
