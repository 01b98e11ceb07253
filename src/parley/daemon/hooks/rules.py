"""Which hooks an event runs, what they are told, and what they may ask for in return.

A hook reads the event as JSON and may print one JSON object. What it asks for there it must be allowed to: each call
carries a capability token that was made for this one run, is good for its scopes alone, and ends with it::

    reply:event           answer the message that ran the hook, to its sender or its topic
    dm:send:sender        send a direct message to its sender
    topic:NAME:post       send to the topic NAME, in the mesh of the event

There is no scope for reading, for another recipient, or for another mesh.
"""

import hmac
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from parley.core import untrusted_json
from parley.daemon.hooks.redaction import Path, redact
from parley.daemon.inbox.events import DaemonEvent
from parley.daemon.inbox.reading import InboxMessage

INPUT_BYTES_MAX: Final = 256 * 1024
CALLS_MAX: Final = 16
BY_HOOK: Final = "parley_hook"
"""The member of a message's metadata that says which hook sent it. No hook runs on such a message: two hooks that
answer each other would never end."""


class HookCall(msgspec.Struct, frozen=True):
    """Something that a hook asks for."""

    token: str
    op: Literal["reply", "dm", "topic"]
    message: str
    topic: str = ""


class HookOutput(msgspec.Struct, frozen=True):
    """What a hook may print. ``reply`` is short for a call that answers the message."""

    reply: str | None = None
    calls: list[HookCall] = []


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a hook may print that is asked before a message is sent: why it must not go, or what goes instead.

    A word that is not of these may be a refusal with a slip of the pen, so it does not pass for consent.
    """

    refuse: str | None = None
    message: str | None = None
    meta: dict[str, Any] | None = None


class Capability(NamedTuple):
    """The right to ask for certain things, for one event, until it ends."""

    token: str
    scopes: frozenset[str]
    ends_at: float

    def allows(self, call: HookCall, now: float) -> bool:
        """Whether the call carries this token, in time, and is in its scopes."""
        if now >= self.ends_at or not hmac.compare_digest(call.token.encode(), self.token.encode()):
            return False
        needed = {"reply": "reply:event", "dm": "dm:send:sender", "topic": f"topic:{call.topic}:post"}[call.op]
        return needed in self.scopes


class Wanted(NamedTuple):
    """A message that a hook may have sent: where it goes, what it says, and what it answers."""

    to: str
    message: str
    reply_to: str | None


def hooks_for(event: DaemonEvent, message: InboxMessage | None) -> list[str]:
    """The names of the hooks that the event runs, if they are there."""
    if event.kind == "broker_status":
        status = event.data.get("status")
        return {"open": ["on-reconnect"], "reconnecting": ["on-disconnect"]}.get(str(status), [])
    if event.kind not in ("message", "message_opened") or message is None or message.body is None:
        return []
    if BY_HOOK in message.meta:
        return []
    if event.data.get("refilled"):
        return []  # it ran them when it came first
    names = ["on-message"]
    if message.destination_kind == "dm":
        names.append("on-dm")
    if message.mentioned:
        names.append("on-mention")
    if message.destination_kind == "topic":
        names.append(f"on-topic-{message.destination_ref}")
    return names


def fits(event: dict[str, Any]) -> bool:
    """Whether a hook can be told all of it."""
    return len(msgspec.json.encode(event)) <= INPUT_BYTES_MAX


def hook_input(event: dict[str, Any], redacted: Sequence[Path] = ()) -> bytes:
    """What a hook reads: the event without what it is not told, cut short where it is too large."""
    for path in redacted:
        event = redact(event, path)
    if fits(event):
        return msgspec.json.encode(event)
    body = str(event.get("body") or "")[: INPUT_BYTES_MAX // 8]
    return msgspec.json.encode({**event, "body": body, "meta": {}, "_truncated": True})


def parse_output(stdout: bytes) -> HookOutput | None:
    """What a hook asks for; nothing when it printed nothing. None for what is not of the form."""
    text = stdout.strip()
    if not text:
        return HookOutput()
    try:
        output = untrusted_json.decode(text, HookOutput)
    except msgspec.DecodeError:
        return None
    return output if len(output.calls) <= CALLS_MAX else None


def parse_verdict(stdout: bytes) -> Verdict | None:
    """What a hook says of a message; to print nothing is to let it go. None for what is not of the form."""
    try:
        return untrusted_json.decode(stdout.strip() or b"{}", Verdict)
    except msgspec.DecodeError:
        return None


def wanted(output: HookOutput, capability: Capability, message: InboxMessage | None, now: float) -> list[Wanted | None]:
    """What is to be sent for each call of a hook, in order; None for a call that it may not make."""
    calls = list(output.calls)
    if output.reply is not None:
        calls.insert(0, HookCall(capability.token, "reply", output.reply))
    return [_wanted(call, message) if capability.allows(call, now) else None for call in calls]


def _wanted(call: HookCall, message: InboxMessage | None) -> Wanted | None:
    if call.op == "topic":
        return Wanted(f"#{call.topic}", call.message, None)
    if message is None:
        return None
    to_topic = call.op == "reply" and message.destination_kind == "topic"
    to = f"#{message.destination_ref}" if to_topic else message.sender_pubkey
    return Wanted(to, call.message, message.broker_message_id if call.op == "reply" else None)
