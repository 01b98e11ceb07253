"""``parley daemon backup``, ``restore``, ``install-service`` and ``uninstall-service``."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.call import Call, command, load_app
from parley.cli.commands.daemon.options import app
from parley.cli.services import tell_installed, tell_uninstalled

PASSPHRASE_VARIABLE = "PARLEY_PASSPHRASE"


@command(app, "backup")
def backup(call: Call, file: Annotated[Path, typer.Argument(metavar="FILE", help="It must not exist yet.")]) -> None:
    """Write the memberships, keys and settings to a file that is sealed with a passphrase.

    The passphrase is read from PARLEY_PASSPHRASE, else asked for. What was sent and what arrived is not in the file.
    """
    found: dict[str, Any] = load_app("daemon.backup").back_up(file, _passphrase(confirm=True))
    if call.json:
        call.out.data(found)
    else:
        call.out.line(f"{', '.join(found['files'])} are in {found['path']}.")


@command(app, "restore")
def restore(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace the memberships that are there.")] = False,
) -> None:
    """Put the memberships, keys and settings of a backup in place, on this machine.

    The daemon must not run. The same member must not go on running where the backup was made.
    """
    found: dict[str, Any] = load_app("daemon.backup").restore(file, _passphrase(confirm=False), force=force)
    if call.json:
        call.out.data(found)
    else:
        call.out.line(f"{', '.join(found['files'])} are as they were at {found['made_at']}.")


@command(app, "install-service")
def install_service(
    call: Call,
    allow_ci: Annotated[
        bool, typer.Option("--allow-ci-persistent", "--allow-ci", help="Also on a build machine.")
    ] = False,
    no_start: Annotated[bool, typer.Option("--no-start", help="Only write the file.")] = False,
) -> None:
    """Let the system keep the daemon running: systemd or launchd, as a service of this user.

    It is started again when it fails, but not when its start was refused.
    """
    tell_installed(call, load_app("daemon.service").install_service(allow_ci=allow_ci, start=not no_start))


@command(app, "uninstall-service")
def uninstall_service(call: Call) -> None:
    """Stop the service and remove it. What the daemon holds stays."""
    tell_uninstalled(call, load_app("daemon.service").uninstall_service())


def _passphrase(*, confirm: bool) -> str:
    given = os.environ.get(PASSPHRASE_VARIABLE)
    return given if given is not None else typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm)
