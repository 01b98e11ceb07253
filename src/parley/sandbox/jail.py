"""A running command under a policy: requests go in, answers come out, line by line.

A command that takes too long or writes too much is killed at once, with everything it ever started: one that broke its
policy is of no use any more, and what it would say next belongs to no question.
"""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, NoReturn, Self

from parley.sandbox.keeper import Keeper
from parley.sandbox.policy import JailError, Policy, Reason
from parley.sandbox.streams import Streams

ERROR_TEXT_BYTES_MAX: Final = 4_096
"""What is kept of standard error, for the log."""
_LAST_WORDS_SECONDS: Final = 1.0


class Jail:
    """A command in a sandbox. One thread owns it from its start to its end, and must outlive it."""

    def __init__(self, command: Sequence[str], policy: Policy, environment: Mapping[str, str] | None = None) -> None:
        """Returns when the command has started; ``JailError`` with reason ``unavailable`` says why it cannot."""
        self._policy = policy
        self._keeper = Keeper(command, policy, environment)
        keeper = self._keeper
        self._streams = Streams(keeper.stdin, keeper.stdout, keeper.stderr, bytes_max=policy.output_bytes)
        self._error_tail = b""
        self._exit_code: int | None = None

    @property
    def error_text(self) -> str:
        """The end of what it wrote to standard error."""
        return (self._error_tail + self._streams.errors)[-ERROR_TEXT_BYTES_MAX:].decode(errors="replace")

    def send(self, data: bytes) -> None:
        """Writes ``data`` to its standard input, within the policy's deadline. ``JailError``: it is dead now.

        Of a command that reads no more, perhaps because it has ended, this says nothing: what it answered before can
        still be received, and after that, how it ended.
        """
        deadline = time.monotonic() + self._policy.deadline_seconds
        self._refuse_if_closed()
        try:
            self._streams.write(data)
            while self._streams.pending:
                self._streams.turn(deadline)
        except BrokenPipeError:
            self._streams.pending.clear()
        except JailError as error:
            self._fail(error.reason, error.message)

    def receive_line(self, timeout_seconds: float) -> bytes:
        """The next line of its standard output, without the line's end. ``JailError``: it is dead now."""
        deadline = time.monotonic() + timeout_seconds
        self._refuse_if_closed()
        output = self._streams.output
        searched = 0
        while (end := output.find(b"\n", searched)) < 0:
            searched = len(output)
            if self._streams.output_ended:
                self._fail("ended", "It ended before it answered")
            try:
                self._streams.turn(deadline)
            except JailError as error:
                self._fail(error.reason, error.message)
        line = bytes(output[:end])
        del output[: end + 1]
        self._keep_error_tail()
        return line

    def has_company(self) -> bool:
        """Whether the command has started something that still lives."""
        return self._exit_code is None and self._keeper.has_company()

    def interrupt(self) -> None:
        """Kills everything in it from another thread: whoever waits for it gets a ``JailError`` and closes it."""
        self._keeper.interrupt()

    def close(self) -> None:
        """Kills everything in it; returns when nothing is left. Closing again does nothing."""
        if self._exit_code is None:
            self._exit_code = self._keeper.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fail(self, reason: Reason, message: str) -> NoReturn:
        if self._exit_code is None and reason == "ended":
            self._hear_last_words()
        self.close()
        code = f" (exit code {self._exit_code})" if reason == "ended" else ""
        raise JailError(reason, message + code)

    def _hear_last_words(self) -> None:
        """Waits a moment for its own exit code and for what it still says about its end."""
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        try:
            while not self._streams.all_ended:
                self._streams.turn(deadline)
        except (JailError, BrokenPipeError):
            return
        self._keeper.wait(deadline - time.monotonic())

    def _keep_error_tail(self) -> None:
        errors = self._streams.errors
        if errors:
            self._error_tail = (self._error_tail + errors)[-ERROR_TEXT_BYTES_MAX:]
            errors.clear()

    def _refuse_if_closed(self) -> None:
        if self._exit_code is not None:
            raise JailError("ended", "It was ended before")
