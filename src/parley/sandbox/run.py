"""One command from its start to its end, for hooks and batch work."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parley.sandbox.keeper import Keeper
from parley.sandbox.policy import JailError, Policy
from parley.sandbox.streams import Streams


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended. The exit code is 128 and more for one that a signal ended, as in a shell."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def run(
    command: Sequence[str], policy: Policy, *, stdin: bytes = b"", environment: Mapping[str, str] | None = None
) -> Finished:
    """Runs a command under a policy until it ends. ``JailError``: it was not started, or it broke the policy; in each
    case, and after each end, nothing that it started is left."""
    deadline = time.monotonic() + policy.deadline_seconds
    keeper = Keeper(command, policy, environment)
    try:
        streams = Streams(keeper.stdin, keeper.stdout, keeper.stderr, bytes_max=policy.output_bytes)
        _feed(streams, stdin, deadline)
        keeper.stdin.close()
        while not streams.all_ended:
            streams.turn(deadline)
        exit_code = keeper.wait(deadline - time.monotonic())
        if exit_code is None:
            raise JailError("timeout", f"It still ran after {policy.deadline_seconds} seconds")
        return Finished(exit_code, bytes(streams.output), bytes(streams.errors))
    finally:
        keeper.end()


def _feed(streams: Streams, data: bytes, deadline: float) -> None:
    """Hands the whole input over, unless the command does not want it."""
    try:
        streams.write(data)
        while streams.pending:
            streams.turn(deadline)
    except BrokenPipeError:
        return
