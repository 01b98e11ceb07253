"""Keys of machines: making them, letting machines in, revoking them."""

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from parley.cli.call import Call, command, load_app
from parley.cli.commands.bus.options import (
    STDIN,
    CallsOption,
    DaysOption,
    NoTopicsOption,
    RenewalOption,
    RoleOption,
    TopicOption,
    app,
    may,
)
from parley.core import limits

_TEXT_CHARS_MAX: Final = limits.BUS_STATEMENTS_MAX * limits.BUS_LINE_CHARS_MAX
_LineArgument = Annotated[str, typer.Argument(metavar="LINE", help="The line, or - to read it from standard input.")]


@command(app, "keygen")
def keygen(call: Call, role: RoleOption = "agent") -> None:
    """Make your user key, on your first machine, and let this machine in.

    Keys that are there stay. Run again, it renews this machine's certificate when that ends within 30 days.
    """
    found = load_app("bus").keygen(role)
    if call.json:
        call.out.data(found)
        return
    _tell(call, found)
    if found["created"]:
        call.out.note("The user key is in this folder alone. Keep a copy of user.key where nobody else can read it.")


@command(app, "whoami")
def whoami(call: Call) -> None:
    """Show whose machine this is, which agent, and what it may do until when.

    Where the user key is, it also lists the machines that were let in there.
    """
    found = load_app("bus").whoami()
    if call.json:
        call.out.data(found)
    else:
        _tell(call, found)


@command(app, "issue")
def issue(
    call: Call,
    line: _LineArgument,
    role: RoleOption = "agent",
    days: DaysOption = limits.BUS_CERTIFICATE_DAYS,
    topic: TopicOption = None,
    no_topics: NoTopicsOption = False,
    calls: CallsOption = None,
    renewal: RenewalOption = True,
) -> None:
    """Let in the machine that made a request, and print a line for it to accept.

    This needs the user key. Issuing again for the same machine renews its certificate, or changes what it may do.
    """
    found = load_app("bus").issue(
        _text(line),
        role=role,
        days=days,
        topics=topic or (),
        no_topics=no_topics,
        calls_max=calls,
        renewal=renewal,
    )
    if call.json:
        call.out.data(found)
        return
    call.out.line(found["grant"])
    call.out.note(f"Agent {found['agent']}, which calls itself {found['host']}, may {may(found)}.")
    call.out.note("There, run `parley bus accept` with this line.")


@command(app, "accept")
def accept(call: Call, line: _LineArgument) -> None:
    """Store what `parley bus issue` or `parley bus revoke` printed on the machine with the user key.

    The first grant decides whose machine this is. From then on, another user's lines are refused.
    """
    found = load_app("bus").accept(_text(line))
    if call.json:
        call.out.data(found)
    elif found["accepted"] == "grant":
        call.out.line(f"This machine may {may(found)}, as an agent of user {found['user']}.")
    elif found["changed"]:
        call.out.line(f"Stored: {_stated(found)}.")
    else:
        call.out.line("This was known already.")


@command(app, "revoke")
def revoke(
    call: Call,
    agent: Annotated[list[str] | None, typer.Argument(metavar="[AGENT]...", help="Fingerprints, in full.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every certificate issued by now; this machine gets a new one.")
    ] = False,
) -> None:
    """Revoke agents for good, and print a statement for the other machines.

    This needs the user key. A revoked key cannot be let in again. After --all, machines ask again with the keys they
    have. A machine that has not received the statement goes on trusting whom it names.
    """
    found = load_app("bus").revoke(agent or (), everything=everything)
    if call.json:
        call.out.data(found)
        return
    call.out.line(found["statement"])
    call.out.note(f"{'Revoked' if found['changed'] else 'Revoked before'}: {_stated(found)}.")
    call.out.note("Run `parley bus accept` with this line on the other machines.")


@command(app, "verify")
def verify(
    call: Call,
    text: Annotated[str, typer.Argument(metavar="FILE|LINE", help="A line, a file of lines, or - for standard input.")],
) -> None:
    """Check requests, grants and statements, and show what they allow and until when.

    What is not signed, expired, revoked or another user's is refused. Where this machine has no user yet, any user's
    lines hold, and it is for you to compare the fingerprint.
    """
    found = load_app("bus").verify(_text(text, may_be_file=True))
    if call.json:
        call.out.data(found, rows="found")
        return
    for each in found["found"]:
        call.out.line(_verified(each))
    if any(each.get("user_known") is False for each in found["found"]):
        call.out.note("This machine has no user yet: compare the user with `parley bus whoami` on your first machine.")


def _text(given: str, *, may_be_file: bool = False) -> str:
    """What was given, or what standard input or a file holds; of that, a little more than is ever needed."""
    if given == STDIN:
        return sys.stdin.read(_TEXT_CHARS_MAX + 1)
    if may_be_file and not given.lstrip().startswith("parley-bus-"):
        with Path(given).open(encoding="utf-8", errors="replace") as file:
            return file.read(_TEXT_CHARS_MAX + 1)
    return given


def _tell(call: Call, found: dict[str, Any]) -> None:
    out = call.out
    key = "its key is here" if found["user_key"] else "its key is elsewhere"
    out.line(f"user   {found['user']} ({key})" if found["user"] else "user   none yet")
    out.line(f"agent  {found['agent']}" if found["agent"] else "agent  none yet")
    if found["certificate"] is not None:
        out.line(f"may    {may(found['certificate'])}")
    if found["standing"] != "valid":
        out.line(f"but    {_BUT[found['standing']]}")
    for each in found["issued"]:
        last = "" if each["renewal"] else ", not renewed"
        end = "revoked" if each["revoked"] else f"until {each['expires_at']}{last}"
        out.line(f"let in {each['agent']} ({each['role']}, on {each['host']}, {end})")
    out.line(f"folder {found['folder']}")


_BUT: Final = {
    "not_enrolled": "it was not let in yet: run `parley bus request`",
    "expired": "the certificate has expired: run `parley bus request`, or `parley bus keygen` where the user key is",
    "revoked": "it was revoked",
}


def _stated(found: dict[str, Any]) -> str:
    keys = "1 key" if found["revoked"] == 1 else f"{found['revoked']} keys"
    return f"{keys}, and certificates before generation {found['generation']}" if found["generation"] else keys


def _verified(found: dict[str, Any]) -> str:
    if found["kind"] == "request":
        return (
            f"Request of agent {found['agent']}, which calls itself {found['host']}, made at {found['requested_at']}."
        )
    if found["kind"] == "grant":
        return f"Grant of user {found['user']}: agent {found['agent']} may {may(found)}."
    return f"Statement of user {found['user']}, made at {found['stated_at']}, revokes {_stated(found)}."
