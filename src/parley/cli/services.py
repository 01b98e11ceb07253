"""What is said after a service was installed or removed: the same of a daemon and of a broker."""

from typing import Any

from parley.cli.call import Call


def tell_installed(call: Call, found: dict[str, Any]) -> None:
    """Where the service's file is, and how to start it where that was not done."""
    if call.json:
        call.out.data(found)
        return
    call.out.line(f"The service is {found['path']}.")
    if found["commands"] and not found["started"]:
        call.out.note("It could not be started; run: " + " && ".join(found["commands"]))


def tell_uninstalled(call: Call, found: dict[str, Any]) -> None:
    """Whether there was one."""
    if call.json:
        call.out.data(found)
    else:
        call.out.line(f"{found['path']} {'is gone' if found['removed'] else 'was not there'}.")
