"""The log of a server: one JSON object per line, ``{"ts", "level", "msg", ...}``, without secrets and without content.

structlog makes the lines of our own code; what libraries say through ``logging`` (uvicorn, asyncio) joins them in the
same place. uvicorn must be given ``log_config=None``, or it would undo this. Its access log is off: a line per request
is ours, and has no query string.
"""

import logging
import sys
from pathlib import Path, PurePath
from types import TracebackType
from typing import IO, Any, Final, Literal, Self, cast

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from parley.core.clock import Clock, SystemClock, iso
from parley.core.settings import LogSettings
from parley.core.writable import unusable
from parley.serve.log_sink import FileOutput, LogSink, Output, StreamOutput
from parley.serve.redact import ExcInfo, describe, redact_fields, scrub, without_query

Level = Literal["debug", "info", "warning", "error"]

_LEVELS: Final = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
_DEFAULTS: Final = LogSettings()


class ServerLog:
    """The log that ``configure`` set up. ``logger`` is what our code writes to."""

    def __init__(self, logger: FilteringBoundLogger, sink: LogSink, handler: logging.Handler) -> None:
        self.logger = logger
        self._sink = sink
        self._handler = handler

    def close(self) -> None:
        """Takes the log away from ``logging`` and closes its file."""
        logging.getLogger().removeHandler(self._handler)
        self._sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def configure(
    level: Level,
    destination: IO[bytes] | Path,
    rotate_bytes: int = _DEFAULTS.rotate_bytes,
    keep: int = _DEFAULTS.keep,
    *,
    clock: Clock | None = None,
) -> ServerLog:
    """Sets up the log of this process. A path is a file that is rotated; a stream is only written to.

    Raises ``WorkspaceUnsafe`` for a file that cannot be written.
    """
    clock = clock or SystemClock()
    sink = LogSink(_output(destination, rotate_bytes, keep), clock)
    least = logging.getLevelNamesMapping()[level.upper()]
    logger = cast(
        "FilteringBoundLogger",
        structlog.wrap_logger(
            _SinkLogger(sink),
            processors=[_renderer(clock)],
            wrapper_class=structlog.make_filtering_bound_logger(least),
        ).bind(),
    )
    handler = _LoggingHandler(logger)
    _take_over_logging(handler, least)
    return ServerLog(logger, sink, handler)


def _output(destination: IO[bytes] | Path, rotate_bytes: int, keep: int) -> Output:
    if not isinstance(destination, Path):
        return StreamOutput(destination)
    try:
        return FileOutput(destination, rotate_bytes, keep)
    except OSError as error:
        raise unusable(destination, error) from error


class _SinkLogger:
    """What structlog calls with the rendered line, whatever the level."""

    def __init__(self, sink: LogSink) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = sink.write


def _renderer(clock: Clock) -> Processor:
    """The one processor: a line per request would pay for every link of a chain."""
    encode = msgspec.json.Encoder(enc_hook=_encode_unknown).encode
    now_ms = clock.now_ms

    def render(logger: WrappedLogger, name: str, event: EventDict) -> bytes:
        fields = cast("dict[str, Any]", event)
        ours = {"ts": iso(now_ms()), "level": name, "msg": fields.pop("event")}
        if "exc_info" in fields:
            _explain_exception(fields)
        redact_fields(fields)
        try:
            line = encode({**ours, **fields, **ours})  # twice: first for their place in the line, then against fields
        except (TypeError, ValueError, OverflowError):
            line = encode({**ours, "msg": "a line that is not JSON", "fields": sorted(map(ascii, fields))})
        return scrub(line) + b"\n"

    return render


def _explain_exception(fields: dict[str, Any]) -> None:
    told: object = fields.pop("exc_info")
    if told is True:
        told = sys.exc_info()
    error = cast("ExcInfo", told)[1] if isinstance(told, tuple) else told
    if isinstance(error, BaseException):
        fields["exception"] = describe(error)


def _encode_unknown(value: object) -> str:
    return str(value) if isinstance(value, PurePath) else f"<{type(value).__name__}>"


class _LoggingHandler(logging.Handler):
    """Passes what libraries log on to our logger."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = without_query(record.getMessage())
        except (TypeError, ValueError):
            message = str(record.msg)  # a library's own formatting mistake
        known = max((level for level in _LEVELS if level <= record.levelno), default=logging.DEBUG)
        fields: dict[str, Any] = {"logger": record.name}
        if record.exc_info:
            fields["exc_info"] = record.exc_info
        self._logger.log(known, message, **fields)


def _take_over_logging(handler: logging.Handler, least: int) -> None:
    root = logging.getLogger()
    for earlier in [known for known in root.handlers if isinstance(known, _LoggingHandler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(max(least, logging.INFO))  # libraries' debug lines may hold what was sent
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    access = logging.getLogger("uvicorn.access")
    access.handlers.clear()
    access.propagate = False
    access.disabled = True
