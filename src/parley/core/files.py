"""Files that matter are never half there: temp file, fsync, rename, fsync of the folder; modes are set at creation."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

PRIVATE_MODE: Final = 0o600


def write_atomic(path: Path, data: bytes, mode: int = PRIVATE_MODE, *, durable: bool = True) -> None:
    """Replaces the file as a whole: a reader, also one after a power cut, sees the old content or the new.

    What is not ``durable`` is whole for every reader too, but a power cut may take it.
    """
    temporary = temporary_beside(path)
    try:
        _write(temporary, path, data, mode, durable=durable)
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_new(path: Path, data: bytes, mode: int = PRIVATE_MODE) -> None:
    """Creates the file as a whole and durably: whoever sees it sees all of it, also after a power cut.

    Raises ``FileExistsError``, and then leaves what is there as it is, be it a link that leads nowhere.
    """
    temporary = temporary_beside(path)
    try:
        _write(temporary, path, data, mode, durable=True)
        os.link(temporary, path, follow_symlinks=False)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def _write(temporary: Path, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
    """A failure names ``path``: writing alone would not say which file there was no room for."""
    try:
        with os.fdopen(create_private(temporary, mode), "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except OSError as error:
        error.filename = str(path)
        raise


def temporary_beside(path: Path) -> Path:
    """A name in the same folder, so that the rename stays in one file system; random, so that nobody can plant it."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def create_private(path: Path, mode: int = PRIVATE_MODE) -> int:
    """Creates a file that must not exist yet, with this mode from its first moment. Returns the descriptor."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with contextlib.suppress(OSError):  # a file system without modes (some mounts) is no reason to fail
        os.fchmod(descriptor, mode)  # the umask may have taken bits away that the caller asked for
    return descriptor


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Tells one content of a file from another without reading it; None where there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def sync_folder(folder: Path) -> None:
    """Makes renames and creations in the folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
