"""``parley daemon accept-host``, ``reload``, ``rotate-token``, ``rotate-keypair`` and ``recover``."""

from typing import Any

from parley.cli.call import Call, command, load_app
from parley.cli.commands.daemon.options import MeshOption, app, daemon_client
from parley.cli.plain import plain


@command(app, "accept-host")
def accept_host(call: Call) -> None:
    """Say that the daemon's folder belongs to this machine from now on.

    For a folder that was moved, not copied: the same member on two machines pushes itself out.
    """
    found: dict[str, Any] = load_app("daemon.offline").accept_host()
    if call.json:
        call.out.data(found)
    else:
        call.out.line(f"The folder belongs to this machine now ({found['fingerprint'][:16]}).")


@command(app, "reload")
def reload(call: Call) -> None:
    """Let the daemon take its settings, hooks and memberships again; meshes that stay keep their connection.

    A mistake in a file changes nothing. Settings that only a start can heed are named.
    """
    with daemon_client() as client:
        found = client.reload()
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(f"{len(found.attached)} meshes are new, {len(found.detached)} are gone.")
        call.out.line(f"Changed: {', '.join(found.changed) or 'no setting'}.")
        call.out.line(f"Hooks: {', '.join(found.hooks) or 'none'}.")
        if found.needs_restart:
            call.out.line(f"Only after a restart: {', '.join(found.needs_restart)}.")


@command(app, "rotate-token")
def rotate_token(call: Call) -> None:
    """Replace the token of the loopback port. The old one is accepted for a grace period."""
    found: dict[str, Any] = load_app("daemon.offline").rotate_token()
    if call.json:
        call.out.data(found)
    else:
        call.out.line("The token is new." if found["running"] else "The token is new; no daemon is running.")


@command(app, "rotate-keypair")
def rotate_keypair(call: Call, mesh: MeshOption = None) -> None:
    """Replace the member's key in a mesh. What was sealed to the old one can be read for a grace period."""
    with daemon_client() as client:
        found = client.rotate_keypair(mesh)
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(f"The key in {found.mesh} is {found.pubkey} now.")


@command(app, "recover")
def recover(call: Call) -> None:
    """Check both databases, and save what can be read of a damaged outbox into a new one.

    The daemon must not run. Damaged files are kept beside the new ones; a damaged inbox is filled again by the brokers.
    """
    found: dict[str, Any] = load_app("daemon.offline").recover()
    if call.json:
        call.out.data(found)
        return
    for name in ("outbox", "inbox"):
        call.out.line(f"{name}: {found[name]}")
    if "saved" in found:
        rest = "others could not be read" if found["unreadable"] else "no other was found"
        call.out.line(f"{found['saved']} rows were saved, {rest}; the damaged file is {found['outbox_set_aside']}.")
