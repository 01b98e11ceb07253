"""What machines say to each other: listening, sending, asking, publishing, and what waits."""

import sys
from typing import Annotated, Any, Final, Literal

import typer

from parley.cli.call import Call, command, load_app
from parley.cli.commands.bus.options import STDIN, MdnsOption, app, print_line
from parley.cli.output import printable
from parley.core import limits
from parley.core.errors import InvalidInput

_Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The fingerprint, in full.")]
_Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
_Body = Annotated[str, typer.Argument(metavar="[TEXT]", help="The message, or - to read it from standard input.")]
_OUTCOMES: Final = {
    "delivered": "{agent} has it.",
    "spooled": "{agent} is away; it waits in the outbox as {outbox_id}.",
    "put off": "{agent} does not take it yet: {why}. It waits in the outbox as {outbox_id}.",
    "behind": "Other messages wait for {agent}; it waits behind them in the outbox as {outbox_id}.",
    "failed": "{agent} does not get it: {why}",
}

_AWAY: Final = ("BUS_PEER_UNREACHABLE", "BUS_CHANNEL_CLOSED", "BUS_NOT_ACKNOWLEDGED")


@command(app, "listen")
def listen(
    call: Call,
    topic: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics to subscribe to.")] = None,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            metavar="TOPIC=COMMAND",
            help="Answer requests on the topic with what the command prints, given the request; may be repeated.",
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Only this address of the machine.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65_535, help="Else the one of the last time, if it is free.")
    ] = None,
    spool: Annotated[
        Literal["off", "publish", "all"],
        typer.Option(
            "--spool", help="What waits for agents that are away: nothing, what is published, or requests too."
        ),
    ] = "publish",
    mdns: MdnsOption = True,
) -> None:
    """Be on the bus: print what is published on topics, answer requests, send what waits.

    Other commands of the bus use this process while it runs. Ends with 0 at Ctrl-C or SIGTERM.
    """

    def ready(report: dict[str, Any]) -> None:
        if call.json:
            print_line({"status": "listening", **report})
        else:
            call.out.note(f"Listening on port {report['port']} as agent {report['agent']}.")

    def tell(message: dict[str, Any]) -> None:
        if call.json:
            print_line({"status": "message", **message})
            return
        said = message["body"] if message["body"] is not None else f"{message['body_base64']} (base64)"
        sys.stdout.write(printable(f"{message['agent'][:12]} {message['topic']}: {said}") + "\n")
        sys.stdout.flush()

    load_app("bus_listen").listen(
        topic or (),
        answer or (),
        host=host,
        port=port,
        spool=spool,
        mdns=mdns,
        ready=ready,
        tell=tell,
        note=call.out.note,
    )


@command(app, "send")
def send(call: Call, agent: _Agent, topic: _Topic, body: _Body, mdns: MdnsOption = True) -> None:
    """Publish to one agent. If it is away, the message waits for it in the outbox."""
    found = load_app("bus_messages").send(agent, topic, _bytes(body), mdns=mdns, note=call.out.note)
    if call.json:
        call.out.data(found)
    else:
        call.out.line(_outcome(found))


@command(app, "request")
def request(
    call: Call,
    agent: Annotated[str | None, typer.Argument(metavar="[AGENT]", help="Whom to ask, in full.")] = None,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic.")] = None,
    body: Annotated[
        str, typer.Argument(metavar="[TEXT]", help="What to ask, or - to read it from standard input.")
    ] = "",
    seconds: Annotated[
        float,
        typer.Option("--timeout", min=0.1, max=limits.BUS_REQUEST_SECONDS_MAX, help="How long to wait for the answer."),
    ] = limits.BUS_REQUEST_SECONDS,
    mdns: MdnsOption = True,
) -> None:
    """Ask an agent, and print its answer. Without one, ask to be let in.

    To be let in, this makes the machine's key, and prints a line for the machine with the user key.
    """
    if agent is None:
        _request_entry(call)
        return
    if topic is None:
        raise InvalidInput("On which topic? Give an agent and a topic.", field="topic")
    found = load_app("bus_messages").request(agent, topic, _bytes(body), seconds=seconds, mdns=mdns, note=call.out.note)
    if call.json:
        call.out.data(found)
    elif found["body"] is not None:
        call.out.line(found["body"].removesuffix("\n"))
    else:
        call.out.line(f"{found['body_base64']} (base64)")


@command(app, "publish")
def publish(call: Call, topic: _Topic, body: _Body, mdns: MdnsOption = True) -> None:
    """Publish to every agent that is known to subscribe to the topic, now or when it is back."""
    found = load_app("bus_messages").publish(topic, _bytes(body), mdns=mdns, note=call.out.note)
    if call.json:
        call.out.data(found, rows="deliveries")
        return
    for each in found["deliveries"]:
        call.out.line(_outcome(each))
    if not found["deliveries"]:
        call.out.note("No agent is known to subscribe to this topic.")


@command(app, "peers")
def peers(call: Call, mdns: MdnsOption = True) -> None:
    """List the agents that were met within 30 days, or are announced now."""
    found = load_app("bus_messages").peers(mdns=mdns, note=call.out.note)["peers"]
    if call.json:
        call.out.listing("peers", found)
        return
    rows = (
        (
            each["agent"],
            each["role"] or "never met",
            "connected" if each["connected"] else each["seen_at"] or "announced",
            ", ".join(each["topics"]),
            ", ".join(each["addresses"]),
        )
        for each in found
    )
    call.out.table(("agent", "role", "seen", "topics", "addresses"), rows, empty="No agent is known.")


@command(app, "outbox")
def outbox(
    call: Call,
    unwedge: Annotated[
        int | None, typer.Option("--unwedge", metavar="ID", help="Try a wedged message again, in its old place.")
    ] = None,
    discard: Annotated[int | None, typer.Option("--discard", metavar="ID", help="Give up a message.")] = None,
) -> None:
    """List what waits for agents that are away, what is wedged and why, and what has expired."""
    messages = load_app("bus_messages")
    if unwedge is not None and discard is not None:
        raise InvalidInput("Give --unwedge or --discard, not both.", field="discard")
    if unwedge is not None or discard is not None:
        changed = (
            messages.unwedge(unwedge, call.out.note)
            if unwedge is not None
            else messages.discard(discard, call.out.note)
        )
        if call.json:
            call.out.data(changed)
        else:
            missing = "There is no such message." if unwedge is None else "No message with this number is wedged."
            call.out.line("Done." if changed["changed"] else missing)
        return
    found = messages.outbox(call.out.note)
    if call.json:
        call.out.data(found)
        return
    rows = [
        (each["id"], each["agent"], "wedged" if each["wedged"] else "waits", each["wedged"] or each["last_error"])
        for each in found["waiting"]
    ]
    rows += [(each["id"], each["agent"], "expired", each["why"]) for each in found["expired"]]
    call.out.table(("id", "agent", "state", "why"), rows, empty="Nothing waits.")


def _request_entry(call: Call) -> None:
    found = load_app("bus").request()
    if call.json:
        call.out.data(found)
        return
    call.out.line(found["request"])
    call.out.note(f"This machine is agent {found['agent']}.")
    call.out.note("Where your user key is, run `parley bus issue` with this line, and compare the agent.")


def _outcome(delivery: dict[str, Any]) -> str:
    outcome, error = delivery["outcome"], delivery["error"]
    if outcome == "spooled" and error is None:
        outcome = "behind"
    elif outcome == "spooled" and error["code"] not in _AWAY:
        outcome = "put off"
    return _OUTCOMES[outcome].format(why=error and error["message"], **delivery)


def _bytes(text: str) -> bytes:
    """What was given, or what standard input holds; of that, a little more than fits into a message."""
    return sys.stdin.buffer.read(limits.BUS_FRAME_BYTES_MAX + 1) if text == STDIN else text.encode()
