"""The two ways to carry out a step: blocking this thread, or awaiting it. Nothing is decided here.

The HTTP library is loaded with the first request, so that importing the client costs little. Proxies from the
environment are not used: the server is on this machine, or behind a tunnel that the caller made. With a socket, all
requests go there.
"""

import asyncio
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar, assert_never

from parley.client import spool
from parley.client.lines import Lines
from parley.client.refusals import error_from
from parley.client.steps import Exited, Outcome, Pause, Reply, Request, Spawn, Step, Steps
from parley.core.errors import AnswerLate, ClientClosed, ConnectionFailed, InvalidInput

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


class BlockingRunner:
    """Runs steps in the calling thread. May be used by several threads."""

    def __init__(self, timeout: float, socket: Path | None = None) -> None:
        self._timeout = timeout
        self._socket = socket
        self._opening = threading.Lock()
        self._closed = False
        self._http: httpx.Client | None = None

    def run(self, steps: Steps[T]) -> T:
        """The value that the generator returns."""
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                return done.value
            outcome = self._carry_out(step)

    def close(self) -> None:
        with self._opening:
            self._closed = True
        if self._http is not None:
            self._http.close()

    def _carry_out(self, step: Step) -> Outcome:
        match step:
            case Request():
                return self._exchange(step)
            case Pause(seconds):
                return time.sleep(seconds)
            case Spawn(argv):
                with tempfile.TemporaryFile() as complaint:
                    ended = subprocess.run(
                        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaint, check=False
                    )
                    return Exited(ended.returncode, _text(complaint))
            case _:
                assert_never(step)

    def _exchange(self, request: Request) -> Reply | ConnectionFailed:
        self._check_open()
        if request.url.startswith(spool.SCHEME):
            return _by_file(request, self._timeout)
        import httpx

        http, timeout = self._connected(request), _patience(self._timeout, request.longer_seconds)
        try:
            return _reply(
                http.request(
                    request.method, request.url, headers=request.headers, content=request.body, timeout=timeout
                )
            )
        except httpx.InvalidURL as error:
            raise _no_address(request, error) from error
        except httpx.HTTPError as error:
            return _failure(request, error)

    def lines(self, request: Request, silence_seconds: float) -> Iterator[str]:
        """The lines of an answer as they come, each within so many seconds of the one before.

        Raises ``ConnectionFailed``, and the error that a refusal stands for.
        """
        import httpx

        http, timeout, lines = self._connected(request), httpx.Timeout(self._timeout, read=silence_seconds), Lines()
        try:
            with http.stream(request.method, request.url, headers=request.headers, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                    raise error_from(_reply(response))
                for data in response.iter_bytes():
                    yield from lines.take(data)
        except httpx.InvalidURL as error:
            raise _no_address(request, error) from error
        except httpx.HTTPError as error:
            raise _failure(request, error) from error

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("The client was closed")

    def _connected(self, request: Request) -> "httpx.Client":
        import httpx

        with self._opening:
            self._check_open()
            if self._http is None:
                transport = None if self._socket is None else httpx.HTTPTransport(uds=str(self._socket))
                self._http = httpx.Client(
                    timeout=self._timeout, trust_env=False, verify=_needs_certificates(request), transport=transport
                )
            return self._http


class AsyncRunner:
    """Runs steps in the event loop that it is first used in."""

    def __init__(self, timeout: float, socket: Path | None = None) -> None:
        self._timeout = timeout
        self._socket = socket
        self._closed = False
        self._http: httpx.AsyncClient | None = None

    async def run(self, steps: Steps[T]) -> T:
        """The value that the generator returns."""
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                return done.value
            outcome = await self._carry_out(step)

    async def aclose(self) -> None:
        self._closed = True
        if self._http is not None:
            await self._http.aclose()

    async def _carry_out(self, step: Step) -> Outcome:
        match step:
            case Request():
                return await self._exchange(step)
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case Spawn(argv):
                with tempfile.TemporaryFile() as complaint:
                    process = await asyncio.create_subprocess_exec(
                        *argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaint
                    )
                    return Exited(await process.wait(), _text(complaint))
            case _:
                assert_never(step)

    async def _exchange(self, request: Request) -> Reply | ConnectionFailed:
        self._check_open()
        if request.url.startswith(spool.SCHEME):
            return await _by_file_async(request, self._timeout)
        import httpx

        http, timeout = self._connected(request), _patience(self._timeout, request.longer_seconds)
        try:
            return _reply(
                await http.request(
                    request.method, request.url, headers=request.headers, content=request.body, timeout=timeout
                )
            )
        except httpx.InvalidURL as error:
            raise _no_address(request, error) from error
        except httpx.HTTPError as error:
            return _failure(request, error)

    async def lines(self, request: Request, silence_seconds: float) -> AsyncGenerator[str]:
        """The lines of an answer as they come, as those of the other runner."""
        import httpx

        http, timeout, lines = self._connected(request), httpx.Timeout(self._timeout, read=silence_seconds), Lines()
        try:
            async with http.stream(request.method, request.url, headers=request.headers, timeout=timeout) as response:
                if not response.is_success:
                    await response.aread()
                    raise error_from(_reply(response))
                async for data in response.aiter_bytes():
                    for line in lines.take(data):
                        yield line
        except httpx.InvalidURL as error:
            raise _no_address(request, error) from error
        except httpx.HTTPError as error:
            raise _failure(request, error) from error

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("The client was closed")

    def _connected(self, request: Request) -> "httpx.AsyncClient":
        import httpx

        self._check_open()
        if self._http is None:
            transport = None if self._socket is None else httpx.AsyncHTTPTransport(uds=str(self._socket))
            self._http = httpx.AsyncClient(
                timeout=self._timeout, trust_env=False, verify=_needs_certificates(request), transport=transport
            )
        return self._http


def _by_file(request: Request, timeout: float) -> Reply | ConnectionFailed:
    """Sends a request through the spool and waits for its answer."""
    exchange = spool.FileExchange(request, timeout)
    outcome: Reply | ConnectionFailed | None = exchange.send()
    while outcome is None:
        time.sleep(spool.POLL_SECONDS)
        outcome = exchange.poll()
    return outcome


async def _by_file_async(request: Request, timeout: float) -> Reply | ConnectionFailed:
    """The same without blocking the thread."""
    exchange = spool.FileExchange(request, timeout)
    outcome: Reply | ConnectionFailed | None = exchange.send()
    while outcome is None:
        await asyncio.sleep(spool.POLL_SECONDS)
        outcome = exchange.poll()
    return outcome


def _needs_certificates(request: Request) -> bool:
    """Reading all certificate authorities takes longer than a request; only what is clearly plain HTTP goes without."""
    return not request.url.startswith("http:")


def _reply(response: "httpx.Response") -> Reply:
    return Reply(response.status_code, response.content, response.headers.get("Retry-After"))


def _patience(timeout: float, longer_seconds: float) -> "httpx.Timeout":
    """How long each part of a request may take; its answer as much longer as the server was asked to wait."""
    import httpx

    return httpx.Timeout(timeout, read=timeout + longer_seconds)


def _failure(request: Request, error: "httpx.HTTPError") -> ConnectionFailed:
    import httpx

    is_late = isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout)
    kind = AnswerLate if is_late else ConnectionFailed
    return kind(f"{type(error).__name__}: {error}".rstrip(": "), method=request.method, url=request.url)


def _no_address(request: Request, error: "httpx.InvalidURL") -> InvalidInput:
    return InvalidInput(f"This cannot be asked for by an address: {error}", method=request.method)


def _text(complaint: IO[bytes]) -> str:
    # A file and not a pipe: a hub that stays behind may hold its end open, and reading a pipe to its end would hang.
    complaint.seek(0)
    return complaint.read().decode(errors="replace")
