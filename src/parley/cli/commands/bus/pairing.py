"""Pairing: a machine is let in while somebody looks at both."""

import os
import sys
from typing import Annotated, Any, Final

import typer

from parley.cli.call import Call, command, load_app
from parley.cli.commands.bus.options import (
    CallsOption,
    DaysOption,
    MdnsOption,
    NoTopicsOption,
    RenewalOption,
    RoleOption,
    TopicOption,
    app,
    may,
    print_line,
)
from parley.core import limits

_ROLE: Final = "agent"
_TYPED_BYTES_MAX: Final = 256


@command(app, "pair")
def pair(
    call: Call,
    address: Annotated[
        str | None, typer.Argument(metavar="[HOST:PORT]", help="Where the machine with the user key waits.")
    ] = None,
    role: RoleOption = _ROLE,
    days: DaysOption = limits.BUS_CERTIFICATE_DAYS,
    topic: TopicOption = None,
    no_topics: NoTopicsOption = False,
    calls: CallsOption = None,
    renewal: RenewalOption = True,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Wait on this address of the machine only.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65_535, help="Wait on this port; else on a free one.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--timeout", min=1.0, max=3600.0, help="How long to go on, in seconds.")
    ] = limits.BUS_PAIRING_SECONDS,
    mdns: MdnsOption = True,
) -> None:
    """Let a machine in over the LAN: run this on both, and compare six digits.

    Run it where the user key is, then on the other machine. Both show six digits. Type on each what the other one
    shows: if somebody stands between the two, the digits differ, and nothing is issued. The options for what the
    machine may do go with the user key. Where there is no multicast, give the other machine the address that the first
    one prints. Programs read the digits with --json, and write those of the other side to standard input.
    """

    def waiting(report: dict[str, Any]) -> None:
        if call.json:
            print_line({"status": "waiting", **report})
        elif "addresses" in report:
            call.out.note("Run `parley bus pair` on the other machine. Where there is no multicast, give an address:")
            for each in report["addresses"] or [f"HOST:{report['port']}"]:
                call.out.note(f"  parley bus pair {each}")
        else:
            call.out.note("Looking for the machine with your user key. Run `parley bus pair` there.")

    def compare(report: dict[str, Any]) -> None:
        if call.json:
            print_line({"status": "compare", **report})
            return
        if "host" in report:
            call.out.note(f"Agent {report['agent']}, which calls itself {report['host']}, asks to be let in.")
        else:
            call.out.note(f"User {report['user']} may let this machine in.")
        call.out.note(f"This machine shows {report['code'][:3]} {report['code'][3:]}.")
        sys.stderr.write("Type the digits that the other machine shows: ")
        sys.stderr.flush()

    module, keys = load_app("bus_pair"), load_app("bus")
    given = (role, days, tuple(topic or ()), no_topics, calls, renewal)
    terms = None if given == (_ROLE, limits.BUS_CERTIFICATE_DAYS, (), False, None, True) else keys.Terms(*given)
    found = module.pair(
        terms,
        module.Way(address, host, port, mdns, seconds),
        module.Person(waiting, compare, _typed, call.out.note),
    )
    if call.json:
        print_line({"status": "paired", **found})
    elif found["paired"] == "let_in":
        call.out.line(f"Agent {found['agent']}, which calls itself {found['host']}, may {may(found)}.")
    else:
        call.out.line(f"This machine may {may(found)}, as an agent of user {found['user']}.")


def _typed() -> str:
    """A line of standard input. It is read from its descriptor: a lock that is held would keep Python from ending."""
    text = b""
    while len(text) < _TYPED_BYTES_MAX and not text.endswith(b"\n"):
        try:
            more = os.read(sys.stdin.fileno(), _TYPED_BYTES_MAX)
        except OSError:
            break
        if not more:
            break
        text += more
    return text.decode("utf-8", "replace")
