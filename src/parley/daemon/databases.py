"""Opening the daemon's two databases, each at its newest schema.

The outbox is the only copy of what was promised to be sent, so damage to it stops the start. The inbox is a cache of
what brokers delivered: a damaged one is moved aside, and an empty one takes its place. A file that is gone while the
other is there is damaged, too.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from parley.core.clock import stamp
from parley.core.daemon_errors import OutboxDamaged
from parley.core.errors import DatabaseCorrupt
from parley.daemon.held import VACUUM_BYTES_MAX, mark_vacuumed, vacuum_is_due
from parley.daemon.inbox.renewal import mark_renewed
from parley.sqlite import (
    Migration,
    close_quietly,
    compact,
    gives_back,
    is_there,
    load_migrations,
    open_checked,
)
from parley.wire.daemon_home import DaemonHome

OUTBOX_MIGRATIONS: Final = load_migrations("parley.daemon", "schema/outbox")
INBOX_MIGRATIONS: Final = load_migrations("parley.daemon", "schema/inbox")
PARTS: Final = ("", "-wal", "-shm")
"""How the names of a database's files end."""


class OpenedInbox(NamedTuple):
    """The inbox's connection, whether it takes the place of a lost one, and where a damaged one was put."""

    connection: apsw.Connection
    renewed: bool = False
    set_aside: Path | None = None


class Opened(NamedTuple):
    """Both databases of a daemon."""

    outbox: apsw.Connection
    inbox: OpenedInbox


def open_both(home: DaemonHome, *, now_ms: int) -> Opened:
    """The connections that write them. Raises ``OutboxDamaged``; what becomes of a damaged inbox, it says.

    The outbox is made first: an inbox without one has lost it, and so has a copy that waits to take its place.
    """
    had_outbox, had_inbox = is_there(home.outbox), is_there(home.inbox)
    missed = had_inbox or is_there(salvaged_outbox(home.outbox))
    outbox = open_outbox(home.outbox, now_ms=now_ms, expected=missed)
    try:
        return Opened(outbox, open_inbox(home.inbox, now_ms=now_ms, expected=had_outbox))
    except BaseException:
        close_quietly(outbox)
        raise


def salvaged_outbox(path: Path) -> Path:
    """Where what can be read of a damaged outbox is copied to."""
    return path.with_name(f"{path.name}.new")


def open_outbox(path: Path, *, now_ms: int = 0, vfs: str | None = None, expected: bool = False) -> apsw.Connection:
    """The connection that writes the outbox. Raises ``OutboxDamaged`` for a damaged file and leaves it as it is.

    So it does when there is none though one is ``expected``: a new one would forget every message that was promised.
    """
    if expected and not is_there(path):
        raise OutboxDamaged(f"{path} is gone or empty, though what lies beside it is not", path=str(path))
    try:
        return _open_checked(path, OUTBOX_MIGRATIONS, now_ms, vfs)
    except DatabaseCorrupt as error:
        raise OutboxDamaged(f"{path} is damaged", **{**error.details, "path": str(path)}) from error


def open_inbox(path: Path, *, now_ms: int = 0, vfs: str | None = None, expected: bool = False) -> OpenedInbox:
    """The connection that writes the inbox. A damaged file is set aside first, and one that is gone though it is
    ``expected`` counts as damaged, too: the new one says of itself that it is to be filled again."""
    if expected and not is_there(path):
        return OpenedInbox(_renew(path, None, now_ms, vfs), renewed=True)
    try:
        return OpenedInbox(_open_checked(path, INBOX_MIGRATIONS, now_ms, vfs))
    except DatabaseCorrupt:
        aside = path.with_name(f"{path.name}.corrupt-{stamp(now_ms)}")
        return OpenedInbox(_renew(path, aside, now_ms, vfs), renewed=True, set_aside=aside)


def _renew(path: Path, aside: Path | None, now_ms: int, vfs: str | None) -> apsw.Connection:
    """A new inbox under another name, complete before it takes the place: a start that is cut short begins anew."""
    fresh = path.with_name(f"{path.name}.new")
    for part in PARTS:
        fresh.with_name(fresh.name + part).unlink(missing_ok=True)
    connection = _open_checked(fresh, INBOX_MIGRATIONS, now_ms, vfs)
    try:
        with connection:
            mark_renewed(connection, now_ms=now_ms, put_aside=aside.name if aside else None)
    finally:
        close_quietly(connection)
    for part in PARTS:
        piece = path.with_name(path.name + part)
        if not piece.exists():
            continue
        if aside is None:
            piece.unlink()
        else:
            piece.rename(aside.with_name(aside.name + part))
    fresh.rename(path)
    return _open_checked(path, INBOX_MIGRATIONS, now_ms, vfs)


def _open_checked(path: Path, migrations: tuple[Migration, ...], now_ms: int, vfs: str | None) -> apsw.Connection:
    connection = open_checked(path, migrations, now_ms=now_ms, vfs=vfs, gives_back=True)
    try:
        _compact(connection, path, now_ms)
    except BaseException:
        close_quietly(connection)
        raise
    return connection


def _compact(connection: apsw.Connection, path: Path, now_ms: int) -> None:
    """A file from before files gave pages back is made over, and a large one is compacted when a week has passed."""
    is_large = path.stat().st_size > VACUUM_BYTES_MAX
    if gives_back(connection) and not (is_large and vacuum_is_due(connection, now_ms=now_ms)):
        return
    with suppress(apsw.Error):  # as on a disk without room for a copy: the next start tries again
        compact(connection)
        mark_vacuumed(connection, now_ms=now_ms)
