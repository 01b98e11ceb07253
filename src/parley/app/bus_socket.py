"""The socket of ``parley bus listen``, by which other commands of the same user use the bus that it owns.

One question and one answer to a connection, each a frame of MessagePack. Only its owner can open the socket (0600, in a
folder of theirs). Whoever has opened it may do what a process may that has the agent's key.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec

from parley.app.bus_operations import AnyOperation, Ask
from parley.bus.frames import FrameReader, framed
from parley.bus.home import BusHome
from parley.core import limits, wire_errors
from parley.core.errors import AnswerLate, InternalError, InvalidInput, ParleyError
from parley.daemon.unix_socket import CONNECT_SECONDS, listen_unix

_QUESTION_SECONDS: Final = 10.0
"""How long a command may take to ask what it was called for."""
_ANSWER_SECONDS: Final = 2 * limits.BUS_REQUEST_SECONDS
"""How long the listener may take, besides what a request may."""
_CHUNK: Final = 65_536

Perform = Callable[[AnyOperation], Awaitable[dict[str, Any]]]


class _Failure(msgspec.Struct, frozen=True):
    message: str
    code: str
    status: int
    details: dict[str, Any]
    hint: str


class _Answer(msgspec.Struct, frozen=True):
    result: dict[str, Any] | None = None
    failure: _Failure | None = None


@asynccontextmanager
async def serving(home: BusHome, perform: Perform) -> AsyncGenerator[None]:
    """Answers while it lasts. Raises ``WorkspaceUnsafe`` where there can be no socket. The caller owns the store."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_QUESTION_SECONDS):
                question = await _read(reader)
            writer.write(framed(msgspec.msgpack.encode(await _answered(question, perform))))
            await writer.drain()
        except (OSError, ParleyError):  # it asked nothing that can be read, or is gone
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(answer, sock=listen_unix(home.socket))
    try:
        yield
    finally:
        server.close()
        home.socket.unlink(missing_ok=True)


def ask(home: BusHome, operation: AnyOperation) -> dict[str, Any] | None:
    """What the listener answers, or None where there is none. Raises what it was refused with."""
    seconds = _ANSWER_SECONDS + (operation.seconds if isinstance(operation, Ask) else 0.0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(CONNECT_SECONDS)
        try:
            connection.connect(str(home.socket))
        except OSError:
            return None
        connection.settimeout(seconds)
        try:
            connection.sendall(framed(msgspec.msgpack.encode(operation)))
            answer = msgspec.msgpack.decode(_received(connection), type=_Answer)
        except (OSError, msgspec.DecodeError) as error:
            raise AnswerLate(f"The process that listens on {home.socket} did not answer: {error}") from error
    if answer.failure is not None:
        failure = answer.failure
        raise wire_errors.retold(
            failure.message, code=failure.code, status=failure.status, details=failure.details, hint=failure.hint
        )
    return answer.result


async def _answered(question: bytes, perform: Perform) -> _Answer:
    try:
        return _Answer(await perform(msgspec.msgpack.decode(question, type=AnyOperation)))
    except msgspec.DecodeError as error:
        return _failed(InvalidInput(f"the question cannot be read: {error}"))
    except ParleyError as error:
        return _failed(error)
    except Exception as error:
        with suppress(Exception):
            asyncio.get_running_loop().call_exception_handler({"message": "a command failed", "exception": error})
        return _failed(InternalError(f"{type(error).__name__}: {error}"))


def _failed(error: ParleyError) -> _Answer:
    details = msgspec.to_builtins(error.details, str_keys=True)
    return _Answer(failure=_Failure(str(error), error.code, error.status, details, error.hint))


async def _read(reader: asyncio.StreamReader) -> bytes:
    frames = FrameReader()
    while (frame := frames.take()) is None:
        data = await reader.read(_CHUNK)
        if not data:
            raise ConnectionResetError("the question was cut off")
        frames.feed(data)
    return bytes(frame)


def _received(connection: socket.socket) -> bytes:
    frames = FrameReader()
    while (frame := frames.take()) is None:
        data = connection.recv(_CHUNK)
        if not data:
            raise ConnectionResetError("the answer was cut off")
        frames.feed(data)
    return bytes(frame)
