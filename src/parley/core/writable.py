"""What a server must be able to write: looked at before it starts, so that it does not serve what it cannot keep."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from parley.core.errors import LocalError, StartupFailed, WorkspaceUnsafe

_NOT_ALLOWED: Final = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENXIO),  # something else is in its place
    }
)
"""What another try does not change; a full disk may have room again."""


def unwritable(paths: Iterable[Path]) -> list[Path]:
    """Those of the files and folders that are there and cannot be written by this process."""
    return [path for path in paths if os.path.lexists(path) and not _may_write(path)]


def refuse_unwritable(paths: Iterable[Path]) -> None:
    """Raises ``WorkspaceUnsafe`` for the first file or folder that is there and cannot be written."""
    for path in unwritable(paths):
        raise WorkspaceUnsafe(f"{path} cannot be written", path=str(path))


def unusable(path: Path, error: OSError) -> LocalError:
    """What to raise for a file or folder that could not be opened, made or written at a start."""
    kind = WorkspaceUnsafe if error.errno in _NOT_ALLOWED else StartupFailed
    return kind(f"{path} cannot be used: {error.strerror}", path=str(path))


def _may_write(path: Path) -> bool:
    wanted = os.W_OK | (os.X_OK if path.is_dir() else 0)
    return os.access(path, wanted, effective_ids=os.access in os.supports_effective_ids)
