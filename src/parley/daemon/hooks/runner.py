"""Running hooks: beside the event loop, a few at a time, each in a jail with a deadline.

The runner follows the daemon's log as any reader does, from a cursor that is kept beside it. So nothing is left out
while many wait, and what a crash or a stop left over is handed out after the next start. What a hook did is written
down when it ends; a hook that was killed in the middle by a crash runs once more, and what it had sent is recognised by
its id. A hook that fails is not run again.

A hook sees its script, the event on its standard input and a few variables: no file of the user, no socket, no token
but its own. Where no jail can be built, no hook runs, and the log says why.
"""

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import apsw

from parley.core.errors import ParleyError
from parley.daemon.hooks.config import Hook
from parley.daemon.hooks.cursor import read_cursor, runs_after, write_cursor
from parley.daemon.hooks.jail import run_hook
from parley.daemon.hooks.rules import BY_HOOK, Capability, Wanted, hooks_for, parse_output, wanted
from parley.daemon.inbox.events import DaemonEvent, append_event, events_after, newest_event
from parley.daemon.inbox.reading import InboxMessage, messages_at
from parley.sandbox import Finished, JailError, missing

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon

AT_ONCE_MAX: Final = 8
BATCH: Final = 100
TOKEN_SECONDS: Final = 300.0
STARTUP: Final = "on-startup"


class HookRunner:
    """The hooks of one daemon."""

    def __init__(self, daemon: "Daemon", hooks: dict[str, Hook]) -> None:
        self._daemon = daemon
        self._hooks = hooks
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._cursor = 0
        """The last event that was handed out."""
        self._under_way: Counter[int] = Counter()
        self._run_before: set[tuple[int, str]] = set()
        self._saved = -1
        self._runs: Counter[tuple[str, str]] = Counter()

    def find_place(self) -> None:
        """Where the hooks go on: after the events that they are done with. Before a start writes new ones."""
        store = self._daemon.store
        known = store.read_inbox(read_cursor)
        self._cursor = store.read_inbox(newest_event) if known is None else known
        self._run_before = store.read_inbox(lambda db: runs_after(db, self._cursor))

    async def start(self) -> None:
        """Runs the hook for a start, and goes on from the place that was found."""
        await self.save()
        self.use(self._hooks)
        starting = DaemonEvent(0, self._daemon.clock.now_ms(), "system", None, None, {})
        await self._begin(STARTUP, starting, None)
        self._following = asyncio.create_task(self._follow())
        self._woken.set()

    def use(self, hooks: dict[str, Hook]) -> None:
        """These hooks from now on, where a jail can be built."""
        lacking = missing() if hooks else ()
        if lacking:
            self._daemon.log.warning("hooks_not_run", reason="; ".join(lacking))
        self._hooks = {} if lacking else hooks

    async def stop(self) -> None:
        """Lets those that run come to their end or their deadline. What was not begun waits for the next start."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.save()

    def on_events(self, events: Sequence[DaemonEvent]) -> None:
        """There is more in the log."""
        if self._hooks or self._under_way:
            self._woken.set()
        elif events:
            self._cursor = max(self._cursor, events[-1].event_id)

    async def save(self) -> None:
        """Writes down how far the hooks are, if that has changed."""
        done = self._done_up_to()
        if done == self._saved:
            return
        try:
            await self._daemon.store.write_inbox(lambda db: write_cursor(db, done))
        except ParleyError as error:
            self._daemon.log.warning("hook_cursor_not_written", code=error.code)
            return
        self._saved = done

    async def write_down(self, told: dict[str, Any], mesh_id: str | None) -> None:
        """A hook has run: to the log, and to whoever follows it."""
        daemon = self._daemon
        daemon.log.info("hook_executed", **told)
        self._runs[str(told["hook"]), _outcome(told)] += 1
        now_ms, done = daemon.clock.now_ms(), self._done_up_to()

        def write(db: apsw.Connection) -> DaemonEvent:
            write_cursor(db, done)
            return append_event(db, "hook_executed", told, now_ms=now_ms, mesh_id=mesh_id)

        try:
            written = await daemon.store.write_inbox(write)
        except ParleyError as error:
            daemon.log.warning("event_not_written", kind="hook_executed", code=error.code)
            return
        daemon.feed.publish([written])

    def take_runs(self) -> dict[tuple[str, str], int]:
        """How often each hook has run since this was asked last, by what became of it."""
        runs, self._runs = self._runs, Counter()
        return dict(runs)

    def _done_up_to(self) -> int:
        return min((event_id for event_id in self._under_way if event_id), default=self._cursor + 1) - 1

    async def _follow(self) -> None:
        store = self._daemon.store
        while True:
            await self._woken.wait()
            self._woken.clear()
            while batch := store.read_inbox(lambda db: events_after(db, self._cursor, BATCH)):
                await self._hand_out(batch)

    async def _hand_out(self, events: list[DaemonEvent]) -> None:
        seqs = [event.inbox_seq for event in events if event.inbox_seq is not None]
        messages = self._daemon.store.read_inbox(lambda db: messages_at(db, seqs)) if seqs else {}
        for event in events:
            message = None if event.inbox_seq is None else messages.get(event.inbox_seq)
            try:
                for name in hooks_for(event, message):
                    if (event.event_id, name) not in self._run_before:
                        await self._begin(name, event, message)
            except Exception as error:  # one event must not keep the hooks from all that come after it
                self._daemon.log.error("hooks_not_run", event_id=event.event_id, exc_info=error)
            self._cursor = event.event_id

    async def _begin(self, name: str, event: DaemonEvent, message: InboxMessage | None) -> None:
        """Starts a run as soon as it has its turn."""
        if name not in self._hooks:
            return
        await self._turns.acquire()
        hook = self._hooks.get(name)
        if hook is None:  # taken away meanwhile
            self._turns.release()
            return
        self._under_way[event.event_id] += 1
        task = asyncio.create_task(self._execute(hook, event, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _execute(self, hook: Hook, event: DaemonEvent, message: InboxMessage | None) -> None:
        try:
            told = await self._told_of_run(hook, event, message)
            await self.write_down(told, event.mesh_id)
        finally:
            self._turns.release()
            self._under_way[event.event_id] -= 1
            self._under_way += Counter[int]()  # drops what is at nought

    async def _told_of_run(self, hook: Hook, event: DaemonEvent, message: InboxMessage | None) -> dict[str, Any]:
        clock = self._daemon.clock
        started = clock.monotonic()
        capability = Capability(secrets.token_hex(32), hook.settings.scopes, started + TOKEN_SECONDS)
        environment = {"PARLEY_EVENT_ID": str(event.event_id), "PARLEY_MESH": event.mesh_id or ""}
        if hook.settings.scopes:
            environment["PARLEY_CAPABILITY_TOKEN"] = capability.token
        told: dict[str, Any] = {"hook": hook.name, "event_id": event.event_id}
        try:
            document = _told(event, message)
            ended = await asyncio.to_thread(run_hook, self._daemon.home, hook, document, environment)
        except JailError as error:
            told |= {"exit": None, "problem": error.reason}
        else:
            told |= {"exit": ended.exit_code, "stdout_bytes": len(ended.stdout), "stderr_bytes": len(ended.stderr)}
            told |= await self._obey(hook, event, message, capability, ended)
        told["duration_ms"] = round((clock.monotonic() - started) * 1000)
        return told

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
            client_message_id=call_id(hook.name, event, number),
        )
        try:
            await daemon.send(asked)
        except ParleyError as error:
            daemon.log.warning("hook_call_failed", hook=hook.name, event_id=event.event_id, code=error.code)
            return False
        return True


def _outcome(told: dict[str, Any]) -> str:
    """``ok``, ``failed``, ``refused``, or ``ended`` for a run that did not come to its own end."""
    if told.get("reason") == "refused":
        return "refused"
    code = told.get("exit")
    return "ended" if code is None else "ok" if code == 0 and not told.get("refused") else "failed"


def call_id(hook: str, event: DaemonEvent, number: int) -> str:
    """The id of what a hook sends: the same if it must run on the same event once more."""
    return f"hook-{event.at}-{event.event_id}-{number}-{hashlib.sha256(hook.encode()).hexdigest()[:16]}"


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
