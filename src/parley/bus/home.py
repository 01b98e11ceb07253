"""The folder of a user's bus on one machine: keys, the grant of this machine, and what was revoked.

Every file is 0600 from its first moment and whole whenever it is seen. Keys are never written over. A file that is a
link, belongs to somebody else or can be used by others is refused and not mended: who could read a key may have. The
grant and the statements are kept as the lines that they came as.

``locked`` is held by whoever reads a file to write it again, so that no statement is lost between two commands.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from parley.core import limits, sealing
from parley.core.bus_errors import FileDamaged, FileUnsafe
from parley.core.files import PRIVATE_MODE, sync_folder, write_atomic, write_new

HOME_VARIABLE: Final = "PARLEY_BUS_HOME"
_FOLDER_MODE: Final = 0o700
_FILE_BYTES_MAX: Final = limits.BUS_STATEMENTS_MAX * limits.BUS_LINE_CHARS_MAX


@dataclass(frozen=True, slots=True)
class BusHome:
    """The places in the folder."""

    root: Path

    @property
    def user_key(self) -> Path:
        return self.root / "user.key"

    @property
    def agent_key(self) -> Path:
        return self.root / "agent.key"

    @property
    def grant(self) -> Path:
        return self.root / "grant"

    @property
    def revocations(self) -> Path:
        return self.root / "revocations"

    @property
    def issued(self) -> Path:
        return self.root / "issued.json"

    @property
    def addresses(self) -> Path:
        return self.root / "addresses.json"

    @property
    def peers(self) -> Path:
        return self.root / "peers"

    @property
    def store(self) -> Path:
        return self.root / "store.db"

    @property
    def socket(self) -> Path:
        return self.root / "socket"

    @property
    def listened(self) -> Path:
        return self.root / "listened.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"


def bus_home() -> BusHome:
    """The folder that the environment names, else ``~/.parley/bus``."""
    named = os.environ.get(HOME_VARIABLE)
    return BusHome(Path(named).absolute() if named else Path.home() / ".parley" / "bus")


@contextmanager
def locked(home: BusHome) -> Generator[None]:
    """Makes the folder, and holds it against other commands that write there."""
    check_folder(home)
    if not home.root.exists():
        home.root.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        sync_folder(home.root.parent)
    descriptor = _opened(home.lock, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def check_folder(home: BusHome) -> None:
    """Raises ``FileUnsafe`` for a folder in which others could put files in the place of ours."""
    try:
        status = home.root.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        raise FileUnsafe(f"{home.root} is no folder", path=str(home.root))
    _check_owner(home.root, status, 0o022)


def make_key(path: Path) -> bool:
    """Makes a key unless there is one, and tells whether it did. The folder must be ``locked``."""
    for leftover in path.parent.glob(f".{path.name}.*.tmp"):
        leftover.unlink()  # somebody was killed while they made a key: it may be a second name of the key itself
    try:
        write_new(path, key_pem(sealing.new_key()))
    except FileExistsError:
        return False
    return True


def key_pem(seed: bytes) -> bytes:
    """A key as it is kept: PKCS#8 in PEM, not encrypted."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_key(path: Path) -> bytes | None:
    """The seed of a key; None where there is no file. Raises ``FileUnsafe`` or ``FileDamaged``."""
    data = read_private(path)
    if data is None:
        return None
    try:
        key = load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise FileDamaged(f"{path} is no private key in PEM", path=str(path)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise FileDamaged(f"{path} is not an ed25519 key", path=str(path))
    return key.private_bytes_raw()


def read_private(path: Path) -> bytes | None:
    """The bytes of a file of ours; None where there is none. Raises ``FileUnsafe`` or ``FileDamaged``."""
    try:
        descriptor = _opened(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_FILE_BYTES_MAX + 1)
    if len(data) > _FILE_BYTES_MAX:
        raise FileDamaged(f"{path} is larger than {_FILE_BYTES_MAX} bytes", path=str(path))
    return data


def write_lines(path: Path, *lines: str) -> None:
    """Replaces a file of lines as a whole."""
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())


def _opened(path: Path, flags: int) -> int:
    """A descriptor of a file that is ours alone. Raises ``FileUnsafe``, or ``OSError`` where it cannot be opened."""
    try:
        # A pipe that somebody put there must not hold up whoever opens it.
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, PRIVATE_MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise FileUnsafe(f"{path} is not a file of its own", path=str(path)) from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileUnsafe(f"{path} is not a file of its own", path=str(path))
        _check_owner(path, status, 0o077)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_owner(path: Path, status: os.stat_result, forbidden: int) -> None:
    if status.st_uid != os.getuid():
        raise FileUnsafe(f"{path} belongs to another user", path=str(path))
    if status.st_mode & forbidden:
        mode = stat.S_IMODE(status.st_mode)
        raise FileUnsafe(f"{path} can be used by others: its mode is {mode:04o}", path=str(path), mode=f"{mode:04o}")
