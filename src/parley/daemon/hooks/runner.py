"""Running hooks: beside the event loop, a few at a time, each in a jail with a deadline.

A hook sees its script, the event on its standard input and a few variables: no file of the user, no socket, no token
but its own. Where no jail can be built, no hook runs, and the log says why. A hook that fails is not run again.
"""

import asyncio
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from parley.core.errors import ParleyError
from parley.daemon.hooks.config import Hook
from parley.daemon.hooks.rules import (
    BY_HOOK,
    Capability,
    Wanted,
    hook_input,
    hooks_for,
    parse_output,
    wanted,
)
from parley.daemon.inbox.events import DaemonEvent, append_event
from parley.daemon.inbox.reading import InboxMessage, messages_at
from parley.sandbox import Finished, JailError, Policy, missing, run

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon

AT_ONCE_MAX: Final = 8
WAITING_MAX: Final = 1_000
TOKEN_SECONDS: Final = 300.0
_SHELL: Final = (Path("/bin"), Path("/usr/bin"))


class HookRunner:
    """The hooks of one daemon."""

    def __init__(self, daemon: "Daemon", hooks: dict[str, Hook]) -> None:
        self._daemon = daemon
        self._hooks = hooks
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Says what keeps hooks from running, or runs the one for a start."""
        self.use(self._hooks)
        self._spawn("on-startup", DaemonEvent(0, self._daemon.clock.now_ms(), "system", None, None, {}), None)

    def use(self, hooks: dict[str, Hook]) -> None:
        """These hooks from now on, where a jail can be built."""
        lacking = missing() if hooks else ()
        if lacking:
            self._daemon.log.warning("hooks_not_run", reason="; ".join(lacking))
        self._hooks = {} if lacking else hooks

    async def stop(self) -> None:
        """Lets those that run come to their end or their deadline."""
        self._hooks = {}
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def on_events(self, events: Sequence[DaemonEvent]) -> None:
        """Runs the hooks of events that were committed."""
        if not self._hooks:
            return
        seqs = [event.inbox_seq for event in events if event.inbox_seq is not None]
        messages = self._daemon.store.read_inbox(lambda db: messages_at(db, seqs)) if seqs else {}
        for event in events:
            message = None if event.inbox_seq is None else messages.get(event.inbox_seq)
            for name in hooks_for(event, message):
                self._spawn(name, event, message)

    def _spawn(self, name: str, event: DaemonEvent, message: InboxMessage | None) -> None:
        hook = self._hooks.get(name)
        if hook is None:
            return
        if len(self._tasks) >= WAITING_MAX:
            self._daemon.log.warning("hook_left_out", hook=name, event_id=event.event_id, waiting=len(self._tasks))
            return
        task = asyncio.create_task(self._execute(hook, event, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _execute(self, hook: Hook, event: DaemonEvent, message: InboxMessage | None) -> None:
        async with self._turns:
            clock = self._daemon.clock
            started = clock.monotonic()
            capability = Capability(secrets.token_hex(32), hook.settings.scopes, started + TOKEN_SECONDS)
            told: dict[str, Any] = {"hook": hook.name, "event_id": event.event_id}
            try:
                ended = await asyncio.to_thread(self._run, hook, event, message, capability)
            except JailError as error:
                told |= {"exit": None, "problem": error.reason}
            else:
                told |= {"exit": ended.exit_code, "stdout_bytes": len(ended.stdout), "stderr_bytes": len(ended.stderr)}
                told |= await self._obey(hook, event, message, capability, ended)
            told["duration_ms"] = round((clock.monotonic() - started) * 1000)
        await self._write_down(event, told)

    def _run(self, hook: Hook, event: DaemonEvent, message: InboxMessage | None, capability: Capability) -> Finished:
        daemon, settings = self._daemon, hook.settings
        shell = hook.file.endswith(".sh")
        policy = Policy(
            readable=_SHELL if shell else (),
            files={hook.file: hook.script},
            hidden=(daemon.home.root,),
            network=settings.network_policy == "allow",
            deadline_seconds=settings.timeout_s,
            output_bytes=settings.output_size_limit,
        )
        environment = {
            "PATH": "/usr/bin:/bin",
            "PARLEY_HOOK_NAME": hook.name,
            "PARLEY_EVENT_ID": str(event.event_id),
            "PARLEY_MESH": event.mesh_id or "",
        }
        if settings.scopes:
            environment["PARLEY_CAPABILITY_TOKEN"] = capability.token
        command = ["/bin/sh", f"/app/{hook.file}"] if shell else [sys.executable, "-I", "-S", f"/app/{hook.file}"]
        return run(command, policy, stdin=hook_input(_told(event, message)), environment=environment)

    async def _obey(
        self, hook: Hook, event: DaemonEvent, message: InboxMessage | None, capability: Capability, ended: Finished
    ) -> dict[str, Any]:
        output = parse_output(ended.stdout) if ended.exit_code == 0 else None
        if output is None:
            return {"replied": False, "capability_calls": 0, "refused_calls": 0}
        calls = wanted(output, capability, message, self._daemon.clock.monotonic())
        sent = [call is not None and await self._send(hook, event, number, call) for number, call in enumerate(calls)]
        return {
            "replied": output.reply is not None and sent[0],
            "capability_calls": sum(sent),
            "refused_calls": calls.count(None),
        }

    async def _send(self, hook: Hook, event: DaemonEvent, number: int, call: Wanted) -> bool:
        from parley.daemon.daemon import Asked

        daemon = self._daemon
        asked = Asked(
            call.to,
            call.message,
            meta={BY_HOOK: hook.name},
            reply_to_id=call.reply_to,
            mesh=event.mesh_id,
            client_message_id=f"hook-{daemon.instance_id}-{event.event_id}-{hook.name}-{number}"[:200],
        )
        try:
            await daemon.send(asked)
        except ParleyError as error:
            daemon.log.warning("hook_call_failed", hook=hook.name, event_id=event.event_id, code=error.code)
            return False
        return True

    async def _write_down(self, event: DaemonEvent, told: dict[str, Any]) -> None:
        daemon = self._daemon
        daemon.log.info("hook_executed", **told)
        now_ms = daemon.clock.now_ms()
        try:
            written = await daemon.store.write_inbox(
                lambda db: append_event(db, "hook_executed", told, now_ms=now_ms, mesh_id=event.mesh_id)
            )
        except ParleyError as error:
            daemon.log.warning("event_not_written", kind="hook_executed", code=error.code)
            return
        daemon.feed.publish([written])


def _told(event: DaemonEvent, message: InboxMessage | None) -> dict[str, Any]:
    """The event as a hook reads it."""
    told: dict[str, Any] = {"event_id": event.event_id, "event": event.kind, "mesh_id": event.mesh_id, **event.data}
    if message is None:
        return told
    return {
        **told,
        "sender_name": message.sender_name,
        "sender_pubkey": message.sender_pubkey,
        "kind": message.destination_kind,
        "to": message.destination_ref,
        "body": message.body,
        "meta": message.meta,
        "mentioned": message.mentioned,
        "reply_to_id": message.reply_to_id,
        "broker_message_id": message.broker_message_id,
    }
