"""What is done while the daemon does not run, under its lock: accept the machine, recover, make and join meshes."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import msgspec

from parley.core.clock import SystemClock, iso
from parley.core.daemon_errors import DaemonNotRunning, DaemonRunning, OutboxDamaged
from parley.core.errors import WriterLockHeld
from parley.core.files import write_atomic
from parley.core.held_files import held_alone
from parley.core.ids import new_token
from parley.core.instance_lock import probe
from parley.daemon.config import load_daemon_settings
from parley.daemon.databases import open_both
from parley.daemon.home import prepare_home
from parley.daemon.identity import this_host, write_record
from parley.daemon.joining import join_mesh
from parley.daemon.memberships import Membership, Memberships
from parley.daemon.outbox.rows import counts
from parley.daemon.rosters.founding import found_mesh, join_roster
from parley.daemon.salvage import Salvaged, salvage
from parley.daemon.unix_socket import refuse_listening
from parley.wire.daemon_home import DaemonHome, daemon_home
from parley.wire.roster_invites import is_roster_invite


@contextmanager
def alone() -> Generator[DaemonHome]:
    """The daemon's folder, for this process alone. Raises ``DaemonRunning`` while a daemon serves it."""
    home = daemon_home()
    prepare_home(home)
    with ExitStack() as held:
        try:
            started_at = iso(SystemClock().now_ms())
            held.enter_context(held_alone(home.lock, home.outbox, home.inbox, started_at=started_at))
            refuse_listening(home.socket)
        except WriterLockHeld as held_by:
            raise DaemonRunning("The daemon is running, and this needs its folder alone") from held_by
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
        try:
            opened = open_both(home, now_ms=now_ms)
        except OutboxDamaged:
            report.update(_mended(salvage(home.outbox, now_ms=now_ms)))
            opened = open_both(home, now_ms=now_ms)
        if opened.inbox.renewed:
            aside = f"set aside as {opened.inbox.set_aside.name}" if opened.inbox.set_aside else "gone"
            report["inbox"] = f"{aside}; the brokers fill a new one"
        report["rows"] = {f"{mesh}/{status}": number for mesh, status, number in counts(opened.outbox)}
        opened.outbox.close()
        opened.inbox.connection.close()
    return report


def _mended(found: Salvaged | None) -> dict[str, Any]:
    if found is None:
        return {"outbox": "gone; nothing of it could be saved, and a new one was made"}
    return {
        "outbox": "damaged",
        "outbox_set_aside": found.set_aside.name,
        "saved": found.saved,
        "unreadable": found.unreadable,
        "problems": [],  # the new one is not opened with any
    }


def make_mesh(broker_url: str, slug: str, title: str, name: str, token: str | None) -> dict[str, Any]:
    """Founds a mesh that a broker carries: through the daemon if it runs, else under its lock, for its next start."""
    from parley.client.daemon import DaemonClient

    if is_running():
        with suppress(DaemonNotRunning), DaemonClient() as client:
            found = client.found(broker_url, slug, name, title=title, creation_token=token)
            return {**msgspec.to_builtins(found), "created": True}
    return {
        **_added(lambda _: found_mesh(broker_url, slug, title, name, token, SystemClock().now_ms())),
        "created": True,
    }


def join(invite: str, name: str) -> dict[str, Any]:
    """Joins a mesh: through the daemon if it runs, else under its lock, for its next start."""
    from parley.client.daemon import DaemonClient

    if is_running():
        with suppress(DaemonNotRunning), DaemonClient() as client:
            return msgspec.to_builtins(client.join(invite, name))
    clock = SystemClock()
    if is_roster_invite(invite):
        return _added(lambda known: join_roster(invite, name, known=known, now_ms=clock.now_ms))
    return _added(lambda known: join_mesh(invite, name, known=known, now_ms=clock.now_ms()))


def _added(made: Callable[[list[Membership]], Coroutine[Any, Any, Membership]]) -> dict[str, Any]:
    """A membership that is made and written down while nobody else has the folder."""
    with alone() as home:
        memberships = Memberships(home.memberships)
        memberships.load()
        return view(memberships.add(asyncio.run(made(memberships.all()))))


def leave(mesh: str | None, *, only_here: bool) -> dict[str, Any]:
    """Leaves a mesh. The broker is told, unless it is only to be forgotten here or has removed the member itself.

    Raises ``DaemonNotRunning`` when the broker must be told and no daemon runs that could.
    """
    from parley.client.daemon import DaemonClient

    if is_running():
        with DaemonClient() as client:
            return msgspec.to_builtins(client.forget(mesh)) if only_here else client.call("leave", mesh=mesh)
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
