"""One plugin in one sandbox, driven from outside: messages in, checked findings out.

Messages are sent ahead of their answers, so that the worker never waits for the hub; never more than a pipe holds, so
that the two cannot come to wait for each other. The worker answers in order, which is how a failure finds its message:
the oldest one without an answer is the one that the plugin was busy with. After a failure that ends the process the
rest have not been looked at, and nothing is said about them.

A session is used by one thread; only ``interrupt`` may be called by another.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec

from parley.core import untrusted_json
from parley.core.clock import Clock
from parley.core.errors import InvalidInput, PluginFailed
from parley.core.limits import ATTACHMENT_BYTES_MAX
from parley.core.settings import PluginDefaultSettings, PluginSettings
from parley.plugin.contract import ERROR_CHARS_MAX, Answer, Message, Task
from parley.plugin.validate import Findings, check_attachments, check_enrichments
from parley.sandbox import Jail, JailError, Policy, python_command
from parley.wire.entities import Message as WireMessage

WORKER: Final = "parley.plugin.worker"
APP_FOLDER: Final = "/app"
START_SECONDS: Final = 30.0
"""For Python itself to come up, on however busy a machine; the plugin's own deadline begins after that."""
IN_FLIGHT_BYTES_MAX: Final = 32_768
"""Half of what a pipe holds: sending this much waits for nobody."""
CPU_SECONDS: Final = 3_600
"""Of one process over its whole life, which ends long before unless the plugin leaves something running."""
_ANSWER_BYTES: Final = 4_096
"""What an answer has around its results, and the room for an error."""
_READ_AHEAD_BYTES: Final = 131_072
"""Of the answers after the one that is waited for: what comes with it in one read."""

Reason = Literal["error", "invalid", "timeout", "output", "crash"]
"""The plugin raised; what it returned breaks a rule; or its process took too long, wrote too much, or ended."""


class Runnable(Protocol):
    """A loaded plugin: its settings, the name to import, the function to call, and its files."""

    @property
    def settings(self) -> PluginSettings: ...
    @property
    def entry(self) -> str: ...
    @property
    def function(self) -> str: ...
    @property
    def files(self) -> Mapping[str, bytes]: ...


@dataclass(frozen=True, slots=True)
class Done:
    """The plugin looked at the message."""

    message: Message
    findings: Findings
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The plugin failed on the message. After a ``fatal`` failure the session is closed."""

    message: Message
    reason: Reason
    text: str
    seconds: float
    fatal: bool


Outcome = Done | Failed


class PluginSession:
    """A process that runs one plugin on one message after the other."""

    def __init__(
        self,
        plugin: Runnable,
        defaults: PluginDefaultSettings,
        clock: Clock,
        *,
        hidden: tuple[Path, ...],
        attachment_bytes_max: int = ATTACHMENT_BYTES_MAX,
    ) -> None:
        """``hidden`` is what must never be visible to it: the state folder of the workspace."""
        settings = plugin.settings
        self.deadline_seconds = settings.deadline_seconds or defaults.deadline_seconds
        self._plugin = plugin
        self._clock = clock
        self._in_flight_max = defaults.batch
        self._bytes_max = attachment_bytes_max
        self._check = check_enrichments if settings.type == "linkifier" else check_attachments
        self._task = Task(
            plugin.entry, _path(plugin), plugin.function, dict(settings.config), defaults.output_bytes + _ANSWER_BYTES
        )
        self._policy = Policy(
            files=plugin.files,
            hidden=hidden,
            network=settings.network,
            deadline_seconds=self.deadline_seconds,
            memory_bytes=settings.memory_bytes or defaults.memory_bytes,
            cpu_seconds=CPU_SECONDS,
            output_bytes=defaults.output_bytes + _ANSWER_BYTES + _READ_AHEAD_BYTES,
        )
        self._jail: Jail | None = None
        self._looked = clock.monotonic()
        self._interrupted = False
        self._number = 0
        self._printed = ""

    def start(self) -> None:
        """Starts the process and loads the plugin, which has its deadline for that. Raises ``PluginFailed``."""
        name = self._plugin.settings.name
        try:
            self._jail = Jail(python_command(WORKER), self._policy)
            if self._interrupted:
                raise JailError("ended", "it was ended while it started")
            self._number = 0
            self._receive(self._jail, START_SECONDS)
            self._jail.send(msgspec.json.encode(self._task) + b"\n")
            answer = self._receive(self._jail, self.deadline_seconds)
        except JailError as error:
            self.close()
            reason = "crash" if error.reason == "ended" else error.reason
            text = self._words(error, "to be loaded")
            raise PluginFailed(f"Plugin {name} does not start: {text}", plugin=name, reason=reason) from error
        if answer.error is not None:
            self.close()
            text = answer.error[:ERROR_CHARS_MAX]
            raise PluginFailed(f"Plugin {name} does not start: {text}", plugin=name, reason="error")

    @property
    def alive(self) -> bool:
        """Whether it can be given messages."""
        return self._jail is not None

    @property
    def printed(self) -> str:
        """The end of what the plugin wrote to standard output and standard error, also after it was closed."""
        return self._printed if self._jail is None else self._jail.error_text

    def run_many(self, messages: Iterable[Message]) -> Iterator[Outcome]:
        """One outcome per message, in order; fewer after a fatal one. Each message has the deadline for itself.

        What a plugin leaves running after its answer does not outlive its deadline by much either. Once per deadline,
        and at the end, nothing more is sent until all is answered; whatever lives then is ended, and it begins anew.
        """
        jail = self._running()
        lines = ((message, msgspec.json.encode(message) + b"\n") for message in messages)
        upcoming = next(lines, None)
        sent: deque[tuple[Message, int]] = deque()
        sent_bytes = 0
        before = self._clock.monotonic()
        try:
            while upcoming is not None or sent:
                outcome: Outcome | None = None
                if not sent and self._look_is_due() and self._has_company():
                    self.close()
                    self.start()
                    jail = self._running()
                while upcoming is not None and self._has_room(sent, sent_bytes + len(upcoming[1])):
                    sent.append((upcoming[0], len(upcoming[1])))
                    sent_bytes += len(upcoming[1])
                    outcome = self._send(jail, upcoming[1], sent[0][0], before)
                    upcoming = next(lines, None) if outcome is None else None
                outcome = outcome or self._outcome(jail, sent[0][0], before)
                sent_bytes -= sent.popleft()[1]
                if isinstance(outcome, Failed) and outcome.fatal:
                    self.close()
                    upcoming = None
                    sent.clear()
                yield outcome
                before = self._clock.monotonic()
            if self._has_company():
                self.close()
        finally:
            if sent:  # the caller lost interest: answers to what was sent would be taken for those of later messages
                self.close()

    def interrupt(self) -> None:
        """Kills the process from another thread: the run under way fails, and the session is closed by its own."""
        self._interrupted = True  # before the look at the jail: one that is being built looks at this afterwards
        jail = self._jail
        if jail is not None:
            jail.interrupt()

    def close(self) -> None:
        """Ends the process and everything it started. May be called at any time, and again."""
        jail, self._jail = self._jail, None
        if jail is not None:
            jail.close()
            self._printed = jail.error_text

    def __enter__(self) -> "PluginSession":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _has_room(self, sent: deque[tuple[Message, int]], size: int) -> bool:
        """A worker with nothing to do takes a message of any size; a busy one what waits in the pipe."""
        if not sent:
            return True
        return len(sent) < self._in_flight_max and size <= IN_FLIGHT_BYTES_MAX and not self._look_is_due()

    def _running(self) -> Jail:
        if self._jail is None:
            raise PluginFailed(f"Plugin {self._plugin.settings.name} is not running", reason="crash")
        return self._jail

    def _look_is_due(self) -> bool:
        return self._clock.monotonic() - self._looked >= self.deadline_seconds

    def _has_company(self) -> bool:
        """Whether the plugin has left something running. Asked while it has nothing to do, so none of it is needed."""
        self._looked = self._clock.monotonic()
        return self._jail is not None and self._jail.has_company()

    def _send(self, jail: Jail, line: bytes, oldest: Message, before: float) -> Failed | None:
        try:
            jail.send(line)
        except JailError as error:
            return self._fatal(oldest, error, before)
        return None

    def _outcome(self, jail: Jail, message: Message, before: float) -> Outcome:
        try:
            answer = self._receive(jail, self.deadline_seconds)
        except JailError as error:
            return self._fatal(message, error, before)
        seconds = self._clock.monotonic() - before
        if answer.error is not None:
            return Failed(message, "error", answer.error[:ERROR_CHARS_MAX], seconds, fatal=False)
        try:
            return Done(message, self._check(message, answer.results or [], self._bytes_max), seconds)
        except InvalidInput as error:
            return Failed(message, "invalid", error.message[:ERROR_CHARS_MAX], seconds, fatal=False)

    def _fatal(self, message: Message, error: JailError, before: float) -> Failed:
        reasons: dict[str, Reason] = {"timeout": "timeout", "output": "output"}
        text = self._words(error, "for one message")
        return Failed(message, reasons.get(error.reason, "crash"), text, self._clock.monotonic() - before, fatal=True)

    def _receive(self, jail: Jail, seconds: float) -> Answer:
        line = jail.receive_line(seconds)
        try:
            answer = untrusted_json.decode(line, Answer)
        except msgspec.DecodeError as error:
            raise JailError("ended", f"it wrote something that is no answer: {error}") from None
        if answer.number != self._number:
            raise JailError("ended", f"it gave answer {answer.number} where answer {self._number} was due")
        self._number += 1
        return answer

    def _words(self, error: JailError, what: str) -> str:
        if error.reason == "timeout":
            return f"it took longer than its {self.deadline_seconds:g} s {what}"
        if error.reason == "output":
            return f"it wrote more than the sandbox allows ({error.message})"
        text = error.message[:1].lower() + error.message[1:ERROR_CHARS_MAX]
        last_words = self.printed.strip().rpartition("\n")[2][:ERROR_CHARS_MAX]
        return f"{text}; the last it said was: {last_words}" if last_words else text


def plugin_message(message: WireMessage) -> Message:
    """A message of the hub as a plugin sees it."""
    return msgspec.convert(message, Message, from_attributes=True)


def _path(plugin: Runnable) -> str | None:
    files: Mapping[str, Any] = plugin.files
    if not files:
        return None
    name = f"{plugin.entry}.py"
    return f"{APP_FOLDER}/{name}" if name in files else f"{APP_FOLDER}/{plugin.entry}/__init__.py"
