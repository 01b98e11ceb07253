"""What the commands of ``parley bus`` have in common."""

import json
import sys
from typing import Annotated, Any, Final

import typer

from parley.cli.call import group
from parley.core import limits

app = group("Let your machines on a LAN talk, with no server.")

STDIN: Final = "-"
"""Stands for what is read from standard input."""

RoleOption = Annotated[
    str, typer.Option("--role", metavar="TEXT", help="What the machine is to you, in a word or two.")
]
DaysOption = Annotated[
    int,
    typer.Option("--days", min=1, max=limits.BUS_CERTIFICATE_DAYS_MAX, help="How long it holds.", show_default=True),
]
TopicOption = Annotated[
    list[str] | None, typer.Option("--topic", metavar="NAME", help="Only on this topic; may be given again.")
]
NoTopicsOption = Annotated[bool, typer.Option("--no-topics", help="On no topic at all.")]
CallsOption = Annotated[
    int | None,
    typer.Option("--calls", min=0, metavar="N", help="Each peer takes this many messages and no more."),
]
RenewalOption = Annotated[
    bool,
    typer.Option("--renewal/--no-renewal", help="Whether this machine renews the certificate when the two meet."),
]
MdnsOption = Annotated[bool, typer.Option("--mdns/--no-mdns", help="Whether to use multicast DNS to find peers.")]


def may(found: dict[str, Any]) -> str:
    """What a certificate allows, in words."""
    topics = found["topics"]
    on = "on all topics" if topics is None else f"on {', '.join(topics)}" if topics else "on no topic"
    calls = "" if found["calls_max"] is None else f", {found['calls_max']} messages to each peer,"
    return f"act as {found['role']} {on}{calls} until {found['expires_at'] or 'it is revoked'}"


def print_line(line: dict[str, Any]) -> None:
    """A line of JSON, at once."""
    sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    sys.stdout.flush()
