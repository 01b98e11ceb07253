"""The hook that is asked before a message is taken: it may refuse it, or say what goes instead.

It fails closed. A hook that cannot run, takes too long or says something unintelligible refuses, since nothing may
leave that its user wanted looked at. The id of a message stays bound to what its caller asked for: a repetition is
recognised without asking again, and what the hook took out is nowhere on the disk.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from parley.core.daemon_errors import HookRefused
from parley.core.errors import ParleyError
from parley.daemon.hooks.config import PRE_SEND, Hook
from parley.daemon.hooks.jail import run_hook
from parley.daemon.hooks.rules import BY_HOOK, Verdict, fits, parse_verdict
from parley.daemon.outbox.accept import Message, message_fingerprint
from parley.daemon.sessions import MARK
from parley.sandbox import JailError, missing

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon

AT_ONCE_MAX: Final = 8


class SendGate:
    """The ``pre-send`` hook of one daemon, if there is one."""

    def __init__(self, daemon: "Daemon", hooks: dict[str, Hook]) -> None:
        self._daemon = daemon
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._hook: Hook | None = None
        self._lacking: tuple[str, ...] = ()
        self.use(hooks)

    def use(self, hooks: dict[str, Hook]) -> None:
        """Asks the hook among these from now on."""
        self._hook = hooks.get(PRE_SEND)
        self._lacking = missing() if self._hook is not None else ()

    async def check(self, message: Message) -> Message:
        """The message as it may go. Raises ``HookRefused``."""
        hook = self._hook
        if hook is None:
            return message
        clock = self._daemon.clock
        started = clock.monotonic()
        told: dict[str, Any] = {"hook": hook.name, "client_message_id": message.client_message_id}
        try:
            async with self._turns:
                checked = await self._asked(hook, message)
            told |= {"exit": 0, "refused": False, "changed": checked != message}
        except HookRefused as refusal:
            told |= {"exit": refusal.details.get("exit"), "refused": True, "reason": refusal.details["reason"]}
            raise
        finally:
            told["duration_ms"] = round((clock.monotonic() - started) * 1000)
            await self._daemon.hooks.write_down(told, message.destination.mesh_id)
        return checked

    async def _asked(self, hook: Hook, message: Message) -> Message:
        document = _told(message)
        if self._lacking:
            raise HookRefused("The pre-send hook cannot run here", reason="no_sandbox", lacking=list(self._lacking))
        if not fits(document):
            raise HookRefused("The message is too large for the pre-send hook to see all of it", reason="too_large")
        environment = {"PARLEY_MESH": message.destination.mesh_id, "PARLEY_EVENT_ID": "0"}
        try:
            ended = await asyncio.to_thread(run_hook, self._daemon.home, hook, document, environment)
        except JailError as error:
            raise HookRefused("The pre-send hook did not come to an end", reason=error.reason) from error
        verdict = parse_verdict(ended.stdout) if ended.exit_code == 0 else None
        if verdict is None:
            raise HookRefused("The pre-send hook failed", reason="failed", exit=ended.exit_code)
        if verdict.refuse is not None:
            raise HookRefused(f"The pre-send hook refused: {verdict.refuse}", reason="refused", exit=0)
        return _changed(message, verdict)


def _told(message: Message) -> dict[str, Any]:
    return {
        "event": "pre_send",
        "client_message_id": message.client_message_id,
        "mesh_id": message.destination.mesh_id,
        "kind": message.destination.kind,
        "to": message.destination.ref,
        "body": message.payload.decode(),
        "meta": message.meta,
        "priority": message.priority,
        "reply_to_id": message.reply_to_id,
        "mentions": message.mentions,
    }


def _changed(message: Message, verdict: Verdict) -> Message:
    meta = message.meta if verdict.meta is None else verdict.meta
    meta = {**meta, **{name: message.meta[name] for name in (BY_HOOK, MARK) if name in message.meta}}
    payload = message.payload if verdict.message is None else verdict.message.encode()
    changed = replace(message, payload=payload, meta=meta)
    try:
        message_fingerprint(changed)
    except ParleyError as error:
        raise HookRefused(f"The pre-send hook printed what cannot be sent: {error}", reason="output", exit=0) from error
    return changed
