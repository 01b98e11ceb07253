"""Backing the daemon's secrets up, and restoring them: who the user is, not what was sent.

The backup holds the memberships with their keys, the replaced keys and the settings, sealed under a passphrase. It does
not hold the local token, and not the outbox: a message that is sent from two copies of it would still be one, but a
row that one copy retired would come back to life in the other.
"""

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from parley.app.daemon.offline import alone
from parley.core.clock import SystemClock, iso
from parley.core.errors import InvalidInput, NotFound
from parley.core.files import PRIVATE_MODE, create_private, write_atomic
from parley.daemon.config import load_daemon_settings
from parley.daemon.identity import this_host, write_record
from parley.wire.daemon_home import DaemonHome, daemon_home

MAGIC: Final = b"PARLEYB1"
PASSPHRASE_CHARS_MIN: Final = 12
_SALT_BYTES: Final = 16


class _Contents(msgspec.Struct, frozen=True):
    made_at: str
    files: dict[str, bytes]


def back_up(path: Path, passphrase: str) -> dict[str, Any]:
    """Writes the sealed backup to a new file. Raises ``InvalidInput`` for a short passphrase or a file that exists."""
    from nacl import pwhash, secret, utils

    if len(passphrase) < PASSPHRASE_CHARS_MIN:
        raise InvalidInput(f"The passphrase must have at least {PASSPHRASE_CHARS_MIN} characters", field="passphrase")
    home = daemon_home()
    files = {each.name: each.read_bytes() for each in _secret_files(home) if each.exists()}
    if home.memberships.name not in files:
        raise NotFound("There is no membership to back up", path=str(home.memberships))
    made_at = iso(SystemClock().now_ms())
    salt = utils.random(_SALT_BYTES)
    box = secret.SecretBox(_key(pwhash, passphrase, salt))
    sealed = MAGIC + salt + bytes(box.encrypt(msgspec.msgpack.encode(_Contents(made_at, files))))
    try:
        descriptor = create_private(path)
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists already", field="file") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(sealed)
        file.flush()
        os.fsync(descriptor)
    return {"path": str(path), "files": sorted(files), "bytes": len(sealed)}


def restore(path: Path, passphrase: str, *, force: bool) -> dict[str, Any]:
    """Puts the files of a backup in place and accepts this machine. Raises ``InvalidInput`` for a wrong passphrase."""
    from nacl import exceptions, pwhash, secret

    data = path.read_bytes()
    salt, sealed = data[len(MAGIC) : len(MAGIC) + _SALT_BYTES], data[len(MAGIC) + _SALT_BYTES :]
    if not data.startswith(MAGIC):
        raise InvalidInput(f"{path} is no backup of a daemon", field="file")
    try:
        contents = secret.SecretBox(_key(pwhash, passphrase, salt)).decrypt(sealed)
    except (exceptions.CryptoError, exceptions.ValueError) as error:
        raise InvalidInput("The passphrase is wrong, or the file was changed", field="passphrase") from error
    found = msgspec.msgpack.decode(contents, type=_Contents)
    with alone() as home:
        if home.memberships.exists() and not force:
            raise InvalidInput(f"{home.memberships} exists; say --force to replace it", field="force")
        names = {each.name: each for each in _secret_files(home)}
        for name, content in found.files.items():
            if name in names:
                write_atomic(names[name], content, PRIVATE_MODE)
        host = this_host(load_daemon_settings(home.config).clone.host_id)
        write_record(home.host_fingerprint, host, iso(SystemClock().now_ms()))
    return {"made_at": found.made_at, "files": sorted(found.files)}


def _secret_files(home: DaemonHome) -> tuple[Path, ...]:
    return (home.memberships, home.key_archive, home.config)


def _key(pwhash: Any, passphrase: str, salt: bytes) -> bytes:
    return pwhash.argon2id.kdf(
        32,
        passphrase.encode(),
        salt,
        opslimit=pwhash.argon2id.OPSLIMIT_INTERACTIVE,
        memlimit=pwhash.argon2id.MEMLIMIT_INTERACTIVE,
    )
