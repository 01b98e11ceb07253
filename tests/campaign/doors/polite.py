"""A program that keeps to all rules: it writes something, reads it back, and goes on, whatever others do."""

import asyncio
import time

from tests.campaign.doors.lines import line_to
from tests.campaign.doors.servers import Target
from tests.conformance.shell.lines import Reply, assert_is_ours, reply

PAUSE_SECONDS = 0.1
RETRY_SECONDS = 0.05


class Polite:
    """Each request has a connection of its own; one that is closed without an answer is asked again, as a client does
    with an idempotency key."""

    def __init__(self, target: Target, deadline_seconds: float) -> None:
        self.made: set[str] = set()
        self.problems: list[str] = []
        self.answers = 0
        self.asked_again = 0
        self.slowest_seconds = 0.0
        self.stopping = False
        self._target = target
        self._deadline_seconds = deadline_seconds

    async def run(self) -> None:
        """Until it is told to stop, or was not served once."""
        while not self.stopping and not self.problems:
            await self.turn()
            await asyncio.sleep(PAUSE_SECONDS)

    async def turn(self) -> None:
        """One write, and a read that must show it."""
        name = f"polite-{len(self.made)}"
        written = await self._ask(f"the write {name}", self._target.makes(name))
        if written is None:
            return
        self.made.add(name)
        read = await self._ask(f"the read after {name}", self._target.lists())
        if read is not None and name not in str(read.body):
            self.problems.append(f"{name} was acknowledged and is not shown")

    async def _ask(self, what: str, request: bytes) -> Reply | None:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline_seconds):
                answer = await self._patiently(request)
        except TimeoutError:
            self.problems.append(f"{what} was not answered within {self._deadline_seconds:g} seconds")
            return None
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
        self.answers += 1
        if answer.status >= 300:
            self.problems.append(f"{what} was answered with {answer.status}: {answer.body}")
            return None
        assert_is_ours(answer)
        return answer

    async def _patiently(self, request: bytes) -> Reply:
        while True:
            try:
                async with line_to(self._target) as (reader, writer):
                    writer.write(request)
                    return await reply(reader)
            except (OSError, asyncio.IncompleteReadError):
                self.asked_again += 1
                await asyncio.sleep(RETRY_SECONDS)
