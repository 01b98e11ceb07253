"""What never reaches a log: tokens, and what people and agents wrote.

Three nets, each for what slips through the one before. Fields whose names say that they carry such things lose their
value. An exception is told by its type and its frames; its message only where the kind of exception cannot quote
data. And each finished line is searched for every registered secret.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from traceback import extract_tb
from types import TracebackType
from typing import Any, Final, cast

import msgspec

from parley.core.errors import ParleyError

REDACTED: Final = "[redacted]"
REFUSED_KEYS: Final = frozenset(
    {
        "token", "auth_token", "access_token", "authorization", "cookie", "set-cookie", "password", "secret",
        "login_code", "content", "content_raw", "old_content", "new_content", "value_json", "body", "data",
        "data_json", "title", "description", "query", "query_string", "params", "headers", "idempotency_key",
        "client_message_id",
    }
)  # fmt: skip
"""Names of fields whose values are never written, at any depth."""

_SECRET_CHARS_MIN: Final = 16
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_CONTAINERS: Final = (dict, list, tuple)
_DEPTH_MAX: Final = 8
"""A log line is flat; what is deeper was not made for it, or contains itself."""
_QUERY_STRING: Final = re.compile(r"\?[^\s\"']+")
_DATALESS_ERRORS: Final = (ParleyError, OSError, AttributeError, NameError, ImportError, TypeError, RecursionError)
_REDACTED_BYTES: Final = REDACTED.encode()
_secrets: tuple[bytes, ...] = ()

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def register_secret(secret: str) -> None:
    """From now on no log of this process holds ``secret``, wherever in a line it would appear."""
    global _secrets
    if len(secret) < _SECRET_CHARS_MIN:
        raise ValueError(f"a secret has at least {_SECRET_CHARS_MIN} characters; a shorter one would blot out the log")
    escaped = msgspec.json.encode(secret)[1:-1]  # as it stands inside a JSON string
    if escaped not in _secrets:
        _secrets = (*_secrets, escaped)


def forget_secret(secret: str) -> None:
    """Undoes ``register_secret`` for one that is of no use to anybody any more; each costs every line a search."""
    global _secrets
    escaped = msgspec.json.encode(secret)[1:-1]
    _secrets = tuple(each for each in _secrets if each != escaped)


def scrub(line: bytes) -> bytes:
    """The line without any registered secret."""
    for secret in _secrets:
        if secret in line:
            line = line.replace(secret, _REDACTED_BYTES)
    return line


def redact_fields(fields: dict[str, Any]) -> None:
    """Takes the value away from each field that must not be written, in place."""
    if "path" in fields:
        fields["path"] = str(fields["path"]).partition("?")[0]
    for name, value in fields.items():
        if name in REFUSED_KEYS:
            fields[name] = REDACTED
        elif type(value) not in _SCALARS:
            fields[name] = _redacted(value)


def without_query(text: str) -> str:
    """A foreign log message without the query strings in it: uvicorn writes them, and a feed's token is in one."""
    return _QUERY_STRING.sub(f"?{REDACTED}", text)


def describe(error: BaseException) -> dict[str, object]:
    """An exception for the log: its type, where it came from, and its message if that cannot quote what was sent."""
    told: dict[str, object] = {"type": type(error).__name__}
    if isinstance(error, _DATALESS_ERRORS):
        told["message"] = str(error)
    told["frames"] = [
        f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in extract_tb(error.__traceback__)
    ]
    if error.__cause__ is not None:
        told["cause"] = describe(error.__cause__)
    return told


def _redacted(value: object, depth: int = _DEPTH_MAX) -> object:
    if not isinstance(value, _CONTAINERS):
        return value
    if depth == 0:
        return REDACTED
    if isinstance(value, dict):
        items = cast("Mapping[object, object]", value).items()
        return {
            name: REDACTED if str(name).lower() in REFUSED_KEYS else _redacted(inner, depth - 1)
            for name, inner in items
        }
    return [_redacted(inner, depth - 1) for inner in cast("Sequence[object]", value)]
