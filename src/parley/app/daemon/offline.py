"""What is done while the daemon does not run, under its lock: accept the machine, recover, make and join meshes."""

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from parley.core.clock import SystemClock, iso, stamp
from parley.core.daemon_errors import DaemonNotRunning, DaemonRunning
from parley.core.errors import DatabaseCorrupt, WriterLockHeld
from parley.core.files import write_atomic
from parley.core.ids import new_token
from parley.daemon.config import load_daemon_settings
from parley.daemon.databases import is_there, open_inbox, open_outbox
from parley.daemon.home import prepare_home
from parley.daemon.identity import this_host, write_record
from parley.daemon.joining import create_mesh, join_mesh
from parley.daemon.memberships import Membership, Memberships
from parley.daemon.outbox.rows import counts
from parley.serve.lock import InstanceLock, probe
from parley.sqlite import integrity_check, open_reader
from parley.wire.daemon_home import DaemonHome, daemon_home


@contextmanager
def alone() -> Generator[DaemonHome]:
    """The daemon's folder, for this process alone. Raises ``DaemonRunning`` while a daemon serves it."""
    home = daemon_home()
    prepare_home(home)
    with InstanceLock(home.lock) as lock:
        try:
            lock.acquire({"pid": os.getpid(), "started_at": iso(SystemClock().now_ms())})
        except WriterLockHeld as held:
            raise DaemonRunning("The daemon is running, and this needs its folder alone") from held
        yield home


def is_running() -> bool:
    """Whether a daemon holds the folder."""
    return probe(daemon_home().lock) is not None


def holder() -> dict[str, Any] | None:
    """The process that holds the folder: ``pid`` and ``started_at``, as far as it has said so."""
    found = probe(daemon_home().lock)
    return None if found is None else {"pid": found.pid, "started_at": found.started_at}


def accept_host() -> dict[str, Any]:
    """Says that the folder belongs to this machine from now on. The keys stay as they are."""
    with alone() as home:
        host = this_host(load_daemon_settings(home.config).clone.host_id)
        write_record(home.host_fingerprint, host, iso(SystemClock().now_ms()))
    return {"fingerprint": host.fingerprint, "host_id": host.host_id, "stable_mac": host.stable_mac}


def rotate_token() -> dict[str, Any]:
    """Writes a new local token; a running daemon takes it over within a second, and the old one for a while yet."""
    home = daemon_home()
    prepare_home(home)
    write_atomic(home.token, f"{new_token()}\n".encode("ascii"))
    return {"rotated": True, "running": is_running()}


def recover() -> dict[str, Any]:
    """Looks at both databases, and saves what can be saved of a damaged outbox into a new one.

    The damaged file is kept beside it. Every row that can still be read is carried over; how many were is said.
    """
    with alone() as home:
        now_ms = SystemClock().now_ms()
        report: dict[str, Any] = {"outbox": "ok", "inbox": "ok"}
        had_outbox, had_inbox = is_there(home.outbox), is_there(home.inbox)
        try:
            open_outbox(home.outbox, now_ms=now_ms, expected=had_inbox).close()
        except DatabaseCorrupt:
            report.update(_salvage(home, now_ms) if had_outbox else _begin_anew(home, now_ms))
        opened = open_inbox(home.inbox, now_ms=now_ms, expected=had_outbox)
        opened.connection.close()
        if opened.renewed:
            aside = f"set aside as {opened.set_aside.name}" if opened.set_aside else "gone"
            report["inbox"] = f"{aside}; the brokers fill a new one"
        reader = open_reader(home.outbox)
        report["rows"] = {f"{mesh}/{status}": number for mesh, status, number, _ in counts(reader)}
        reader.close()
    return report


def _begin_anew(home: DaemonHome, now_ms: int) -> dict[str, Any]:
    home.outbox.unlink(missing_ok=True)
    open_outbox(home.outbox, now_ms=now_ms).close()
    return {"outbox": "gone; nothing of it could be saved, and a new one was made"}


def _salvage(home: DaemonHome, now_ms: int) -> dict[str, Any]:
    import apsw

    aside = home.outbox.with_name(f"{home.outbox.name}.corrupt-{stamp(now_ms)}")
    for part in ("", "-wal", "-shm"):
        piece = home.outbox.with_name(home.outbox.name + part)
        if piece.exists():
            piece.rename(aside.with_name(aside.name + part))
    fresh = open_outbox(home.outbox, now_ms=now_ms)
    saved, lost = 0, False
    try:
        damaged = apsw.Connection(str(aside), flags=apsw.SQLITE_OPEN_READONLY)
        columns = ", ".join(str(row[1]) for row in fresh.execute("PRAGMA table_info(outbox)").fetchall())
        marks = ", ".join("?" for _ in columns.split(", "))
        for name in range(1, _largest(damaged) + 1):
            with suppress(apsw.Error):
                for row in damaged.execute(f"SELECT {columns} FROM outbox WHERE seq = ?", (name,)).fetchall():
                    fresh.execute(f"INSERT OR IGNORE INTO outbox ({columns}) VALUES ({marks})", row)
                    saved += 1
        damaged.close()
    except apsw.Error:
        lost = True
    problems = integrity_check(fresh)
    fresh.close()
    return {
        "outbox": "damaged",
        "outbox_set_aside": aside.name,
        "saved": saved,
        "unreadable": lost,
        "problems": problems,
    }


def _largest(damaged: Any) -> int:
    import apsw

    try:
        return int(damaged.execute("SELECT coalesce(max(seq), 0) FROM outbox").fetchall()[0][0])
    except apsw.Error:
        return 0


def make_mesh(broker_url: str, slug: str, title: str, name: str, token: str | None) -> dict[str, Any]:
    """Makes a mesh on a broker, and joins it as its owner."""
    created = asyncio.run(create_mesh(broker_url, slug, title, token))
    return {**join(created.invite, name), "created": True}


def join(invite: str, name: str) -> dict[str, Any]:
    """Joins a mesh: through the daemon if it runs, else under its lock, for its next start."""
    from parley.client.daemon import DaemonClient

    if is_running():
        with suppress(DaemonNotRunning), DaemonClient() as client:
            return client.post("/v1/mesh/join", {"invite": invite, "name": name})
    with alone() as home:
        memberships = Memberships(home.memberships)
        memberships.load()
        membership = asyncio.run(join_mesh(invite, name, known=memberships.all(), now_ms=SystemClock().now_ms()))
        membership = memberships.add(membership)
    return view(membership)


def leave(mesh: str | None, *, only_here: bool) -> dict[str, Any]:
    """Leaves a mesh. The broker is told, unless it is only to be forgotten here or has removed the member itself.

    Raises ``DaemonNotRunning`` when the broker must be told and no daemon runs that could.
    """
    from parley.client.daemon import DaemonClient

    if is_running():
        with DaemonClient() as client:
            return client.post("/v1/mesh/forget", {"mesh": mesh}) if only_here else client.call("leave", mesh=mesh)
    with alone() as home:
        memberships = Memberships(home.memberships)
        memberships.load()
        found = memberships.only(mesh)
        removed = found.ended is not None and found.ended.removed
        if not removed and not only_here:
            raise DaemonNotRunning("No daemon runs that could tell the broker; --local forgets the mesh here alone")
        memberships.remove(found.mesh_id)
    return {"mesh": found.slug, "member_id": found.member_id, "state": "removed" if removed else "forgotten"}


def list_meshes() -> list[dict[str, Any]]:
    """The memberships, read from the file."""
    memberships = Memberships(daemon_home().memberships)
    memberships.load()
    return [view(each) for each in memberships.all()]


def view(membership: Membership) -> dict[str, Any]:
    """A membership without its secrets."""
    return {
        "mesh_id": membership.mesh_id,
        "slug": membership.slug,
        "broker_url": membership.broker_url,
        "member_id": membership.member_id,
        "display_name": membership.display_name,
        "role": membership.role,
        "pubkey": membership.pubkey,
        "ended": None if membership.ended is None else msgspec.to_builtins(membership.ended),
    }
