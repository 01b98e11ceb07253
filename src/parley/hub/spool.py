"""The file spool: requests from programs that may open no socket come as files, and are answered in files.

Such a program can still write into the workspace. It leaves a signed request in ``spool/requests``; the hub takes it
away, executes it like any other request, and leaves the answer in ``spool/answers``. Each file is executed once: an id
that was seen is refused, and so is a request made before this hub started, whose id an earlier hub may have seen. What
the hub took and could not answer, because it crashed, is asked again by the client under its idempotency key.
"""

import asyncio
import os
import re
import stat
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from parley.core.errors import InvalidAuth, NotFound, ParleyError, PayloadTooLarge, SpoolRefused
from parley.core.files import write_atomic
from parley.core.untrusted_json import decode_by
from parley.wire.answers import error_body
from parley.wire.spool import (
    ALIVE_NAME,
    ANSWERS_NAME,
    REQUESTS_NAME,
    SpoolAnswer,
    SpoolRequest,
    answer_file,
    split_request,
)
from parley.workspace.log import encode_json

if TYPE_CHECKING:
    from parley.hub.hub import Hub

LOOK_SECONDS: Final = 0.1
"""How long a request may lie until it is seen. A look costs one system call."""
ALIVE_TOUCH_SECONDS: Final = 1.0
AGE_MS_MAX: Final = 120_000
"""An older request is refused, so that only the ids of the last minutes need to be remembered."""
AHEAD_MS_MAX: Final = 10_000
"""A request from the future is refused, since it would outlive the memory of its id."""
AT_ONCE_MAX: Final = 32
"""Requests executed at the same time; the others stay where they lie."""
ANSWER_KEPT_SECONDS: Final = 600.0
"""An answer that nobody has fetched by then is removed."""
_FRAME_BYTES: Final = 8_192
"""Room for all of a request but its body."""
_ESCAPED: Final = 6
"""A body stands in the file as a JSON string, where one byte may become six."""
_TICK_NS: Final = 1_000_000_000
"""A folder's time may stand still while files come; so it is looked into for this long after its last change."""
_FOLDER_MODE: Final = 0o700
_NAME: Final = re.compile(r"[0-9a-f]{32}")
_HEADERS: Final = frozenset({"idempotency-key", "x-parley-agent", "content-type"})
_decode = msgspec.json.Decoder(SpoolRequest).decode


class Spool:
    """One task per hub."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._folder = hub.workspace.spool
        self._requests = self._folder / REQUESTS_NAME
        self._answers = self._folder / ANSWERS_NAME
        self._alive = self._folder / ALIVE_NAME
        self._started_ms = hub.clock.now_ms()
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._running: set[asyncio.Task[None]] = set()
        self._changed_ns = -1
        self._usable = False
        for outcome in _OUTCOMES:
            self._count(outcome, 0)
        self._bytes_max = hub.settings.limits.body_bytes_max * _ESCAPED + _FRAME_BYTES

    def open(self) -> None:
        """Makes the folders and shows life in them. One that somebody else could write to is not used."""
        self._usable = self._prepare()
        if self._usable:
            self._show_life()

    async def run(self) -> None:
        """Looks for requests until it is cancelled."""
        if not self._usable:
            return
        clock = self._hub.clock
        touch = clock.monotonic() + ALIVE_TOUCH_SECONDS
        try:
            while True:
                self.look()
                await asyncio.sleep(LOOK_SECONDS)
                if clock.monotonic() >= touch:
                    touch = clock.monotonic() + ALIVE_TOUCH_SECONDS
                    self._show_life()
        finally:
            with suppress(OSError):  # clients see by its age that nobody looks
                self._alive.unlink(missing_ok=True)

    async def drain(self, timeout: float) -> None:
        """Waits until what was taken is answered."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=timeout)

    def look(self) -> None:
        """Takes the requests that lie there, as many as may run at once."""
        try:
            changed_ns = self._requests.stat().st_mtime_ns
            now_ns = self._hub.clock.now_ms() * 1_000_000
            if changed_ns == self._changed_ns and abs(now_ns - changed_ns) > _TICK_NS:
                return
            names = [entry.name for entry in os.scandir(self._requests) if _may_be_request(entry)]
        except OSError:
            return  # somebody removed the folder; the next start makes it again
        room = AT_ONCE_MAX - len(self._running)
        self._changed_ns = changed_ns if len(names) <= room else -1
        for name in sorted(names)[:room]:
            data = self._take(name)
            if data is not None:
                task = asyncio.create_task(self._execute(name, data))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def _prepare(self) -> bool:
        try:
            for folder in (self._folder, self._requests, self._answers):
                folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
                found = folder.lstat()
                if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                    raise PermissionError(0, "not a folder of this user", str(folder))
                if stat.S_IMODE(found.st_mode) != _FOLDER_MODE:
                    folder.chmod(_FOLDER_MODE)
            for left in self._answers.iterdir():
                left.unlink()
        except OSError as error:
            self._hub.log.warning("no_spool", problem=f"{error.filename}: {error.strerror}")
            return False
        return True

    def _show_life(self) -> None:
        with suppress(OSError):
            self._alive.touch(0o600)
            os.utime(self._alive)
            oldest = self._alive.stat().st_mtime - ANSWER_KEPT_SECONDS
            for entry in list(os.scandir(self._answers)):
                if entry.stat(follow_symlinks=False).st_mtime < oldest:
                    Path(entry.path).unlink(missing_ok=True)

    def _take(self, name: str) -> bytes | None:
        """The content of a request's file, which is gone afterwards; None if it is not one to be read."""
        path = self._requests / name
        data: bytes | None = None
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1:
                    data = file.read(self._bytes_max + 1)
        except OSError:
            pass
        try:
            path.unlink()
        except OSError as error:
            if data is not None:  # a request that cannot be taken away would come again and again
                self._hub.log.warning("spool_file_not_removed", problem=error.strerror)
            return None
        if data is None:
            self._count("unreadable")
        return data

    async def _execute(self, name: str, data: bytes) -> None:
        try:
            request = self._admit(name, data)
            answer = await self._answer(request)
            self._count("answered")
        except ParleyError as refusal:
            self._hub.app.note_refusal(refusal)
            self._count("refused")
            answer = SpoolAnswer(name, refusal.status, encode_json(error_body(refusal)).decode())
        path = self._answers / name
        try:
            if not path.exists():
                write_atomic(path, answer_file(answer, self._hub.tokens.current), durable=False)
        except OSError as error:
            self._hub.log.warning("spool_answer_not_written", problem=error.strerror)

    def _admit(self, name: str, data: bytes) -> SpoolRequest:
        """The request, if it is signed, new and of bearable size."""
        if len(data) > self._bytes_max:
            raise PayloadTooLarge("The request's file is too large", limit_bytes=self._bytes_max)
        purpose, signature, payload = split_request(data)
        if not self._hub.tokens.verify(purpose, payload, signature):
            raise InvalidAuth("The file is not signed with this workspace's token")
        try:
            request = decode_by(_decode, payload)
        except msgspec.DecodeError as error:
            raise SpoolRefused(f"The file holds no request: {error}", reason="malformed") from error
        reason = refusal_reason(
            request, name, now_ms=self._hub.clock.now_ms(), started_ms=self._started_ms, seen=self._seen
        )
        if reason is not None:
            raise SpoolRefused(_REASONS[reason], reason=reason)
        self._remember(request)
        return request

    def _remember(self, request: SpoolRequest) -> None:
        self._seen[request.id] = request.made_ms
        horizon = self._hub.clock.now_ms() - AGE_MS_MAX - AHEAD_MS_MAX
        while self._seen and next(iter(self._seen.values())) < horizon:
            self._seen.popitem(last=False)

    async def _answer(self, request: SpoolRequest) -> SpoolAnswer:
        path, _, query = request.target.partition("?")
        if not path.startswith("/api/") and path not in ("/health", "/openapi.json"):
            raise NotFound("Not found", path=path)
        response = await self._hub.app.respond(self._scope(request, path, query), _body_of(request))
        retry_after = next((value.decode() for name, value in response.headers if name == b"retry-after"), None)
        return SpoolAnswer(request.id, response.status, response.body.decode(), retry_after)

    def _scope(self, request: SpoolRequest, path: str, query: str) -> dict[str, Any]:
        body = b"" if request.body is None else request.body.encode()
        headers = [
            (b"host", f"127.0.0.1:{self._hub.port}".encode()),
            (b"authorization", f"Bearer {self._hub.tokens.current}".encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        for name, value in request.headers.items():
            if name.lower() in _HEADERS:
                headers.append((name.lower().encode(), value.encode("latin-1", "replace")))
        return {
            "type": "http",
            "method": request.method,
            "path": unquote(path),
            "query_string": query.encode("latin-1", "replace"),
            "headers": headers,
            "client": ("spool", 0),
        }

    def _count(self, outcome: str, by: int = 1) -> None:
        self._hub.metrics.inc("parley_spool_requests_total", by, outcome)


_OUTCOMES: Final = ("answered", "refused", "unreadable")
_REASONS: Final = {
    "name": "The file's name is not the request's id",
    "before_start": "The request was made before this hub started",
    "too_old": "The request is too old",
    "too_new": "The request was made in the future",
    "seen": "The request was executed already",
}


def refusal_reason(
    request: SpoolRequest, name: str, *, now_ms: int, started_ms: int, seen: OrderedDict[str, int]
) -> str | None:
    """Why a signed request is not executed, or None. Each id is executed once, by whichever hub."""
    if request.id != name:
        return "name"
    if request.made_ms < started_ms:
        return "before_start"
    if request.made_ms < now_ms - AGE_MS_MAX:
        return "too_old"
    if request.made_ms > now_ms + AHEAD_MS_MAX:
        return "too_new"
    return "seen" if request.id in seen else None


def _may_be_request(entry: os.DirEntry[str]) -> bool:
    """Whether it has a request's name and can be taken away; a folder cannot, and would hold a place for ever."""
    return _NAME.fullmatch(entry.name) is not None and not entry.is_dir(follow_symlinks=False)


def _body_of(request: SpoolRequest) -> Any:
    body = b"" if request.body is None else request.body.encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
