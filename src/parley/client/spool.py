"""Reaching a hub through files, where no socket may be opened: the other end of the hub's spool.

A request is a signed file; the answer is another, under the same name. Such an address has the form
``spool://FOLDER/path``, with the folder quoted, so that everything else treats it like any address. A request that
nobody took can be taken back, which makes it certain that nobody will.
"""

import os
import secrets
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from parley.client.steps import Reply, Request
from parley.core.errors import ConnectionFailed
from parley.core.files import write_atomic
from parley.core.locks import open_if_held
from parley.wire.spool import (
    ALIVE_NAME,
    ALIVE_SECONDS,
    ANSWERS_NAME,
    REQUESTS_NAME,
    SpoolRequest,
    read_answer,
    request_file,
)
from parley.workspace.layout import Workspace

SCHEME: Final = "spool:"
POLL_SECONDS: Final = 0.02
TAKEN_SECONDS: Final = 10.0
"""How long a request lies there before it is taken back: a hundred times what a hub takes to see it."""
_BEARER: Final = "Bearer "


def spool_address(workspace: Workspace) -> str | None:
    """The address of the workspace's spool, if a hub has shown life there just now."""
    try:
        touched = (workspace.spool / ALIVE_NAME).stat().st_mtime
    except OSError:
        return None
    if abs(time.time() - touched) > ALIVE_SECONDS or _has_crashed(workspace):
        return None
    return f"{SCHEME}//{quote(str(workspace.spool), safe='')}"


def _has_crashed(workspace: Workspace) -> bool:
    """Whether the hub that showed life is dead: the kernel has freed its lock. Where that cannot be seen, it lives.

    Otherwise every call in the seconds after a crash would wait for a request to be taken that nobody will take.
    """
    try:
        held = open_if_held(workspace.lock)
    except OSError:
        return False
    if held is not None:
        os.close(held)
    return held is None


class FileExchange:
    """One request on its way. ``send``, then ``poll`` every ``POLL_SECONDS`` until there is an outcome."""

    def __init__(self, request: Request, timeout: float) -> None:
        url = urlsplit(request.url)
        folder = Path(unquote(url.netloc))
        headers = dict(request.headers)
        self._request = request
        self._timeout = timeout
        self._token = headers.pop("Authorization", "").removeprefix(_BEARER)
        self._id = secrets.token_hex(16)
        self._file = folder / REQUESTS_NAME / self._id
        self._answer = folder / ANSWERS_NAME / self._id
        self._content = SpoolRequest(
            self._id,
            time.time_ns() // 1_000_000,
            request.method,
            url.path + (f"?{url.query}" if url.query else ""),
            headers,
            None if request.body is None else request.body.decode(),
        )
        self._deadline = self._take_back = 0.0

    def send(self) -> ConnectionFailed | None:
        """Leaves the request for the hub; what went wrong, if it could not be left."""
        now = time.monotonic()
        self._deadline, self._take_back = now + self._timeout, now + min(TAKEN_SECONDS, self._timeout)
        try:
            write_atomic(self._file, request_file(self._content, self._token), durable=False)
        except OSError as error:
            return self._failed(f"the spool cannot be written: {error.strerror}")
        return None

    def poll(self) -> Reply | ConnectionFailed | None:
        """The outcome, as soon as there is one."""
        try:
            data = self._answer.read_bytes()
        except FileNotFoundError:
            return self._overdue()
        except OSError as error:
            return self._failed(f"the answer cannot be read: {error.strerror}")
        self._answer.unlink(missing_ok=True)
        answer = read_answer(data, self._token)
        if answer is None:
            return self._failed("the answer is not signed with this workspace's token")
        return Reply(answer.status, answer.body.encode(), answer.retry_after)

    def _overdue(self) -> ConnectionFailed | None:
        now = time.monotonic()
        if now >= self._take_back:
            self._take_back = self._deadline + 1
            try:
                self._file.unlink()
            except FileNotFoundError:
                return None  # the hub has it
            return self._failed("no hub took the request out of the spool")
        return self._failed("no answer came into the spool in time") if now >= self._deadline else None

    def _failed(self, why: str) -> ConnectionFailed:
        return ConnectionFailed(f"By file: {why}", method=self._request.method, url=self._request.url)
