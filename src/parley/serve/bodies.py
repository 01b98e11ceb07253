"""The body of a request and the headers of a refusal, which every server of ours reads and writes in one way."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, TypeVar

import msgspec

from parley.core.errors import (
    InvalidInput,
    MethodNotAllowed,
    ParleyError,
    PayloadTooLarge,
    Unavailable,
    UnsupportedMediaType,
)
from parley.core.untrusted_json import decode_by
from parley.wire.validation_errors import invalid

T = TypeVar("T")
_JSON: Final = b"application/json"


async def read_body(
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]], declared: bytes | None, most: int
) -> bytes:
    """All of the body. Raises ``PayloadTooLarge`` as soon as it is clear that it is, and ``InvalidInput`` for one whose
    sender left in the middle of it, however well it reads up to there."""
    if declared is not None and declared.isdigit() and int(declared) > most:
        raise _too_large(most)
    message = await receive()
    data: bytes | bytearray = message.get("body", b"")
    if message.get("more_body"):
        data = bytearray(data)  # grows in place: a body that comes byte by byte costs no more than its size
    while message.get("more_body"):
        if len(data) > most:
            raise _too_large(most)
        message = await receive()
        data += message.get("body", b"")
    if message["type"] == "http.disconnect":
        raise InvalidInput("The body ended early")
    if len(data) > most:
        raise _too_large(most)
    return bytes(data)


def require_json(content_type: bytes) -> None:
    """Raises ``UnsupportedMediaType`` for a body that is not said to be JSON."""
    if content_type != _JSON and content_type.partition(b";")[0].strip().lower() != _JSON:
        raise UnsupportedMediaType("Content-Type must be application/json")


def refuse_encoded(headers: Mapping[bytes, bytes]) -> None:
    """Refuses a body that says that it is compressed: nothing here would open it."""
    if headers.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
        raise InvalidInput("Transfer-Encoding may only be chunked", field="Transfer-Encoding")
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise UnsupportedMediaType("The body must not be compressed")


def decode_body(decode: Callable[[bytes], T], data: bytes) -> T:
    """The body in its type. Raises ``InvalidInput``, which names the member that is wrong."""
    try:
        return decode_by(decode, data)
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    except msgspec.DecodeError as error:
        raise InvalidInput(f"The body is not valid JSON in UTF-8: {error}") from None


def refusal_headers(error: ParleyError) -> list[tuple[bytes, bytes]]:
    """What HTTP itself wants to be told of a refusal: when to come again, what is allowed, how to prove oneself."""
    if isinstance(error, Unavailable) and error.transient:
        return [(b"retry-after", str(max(1, round(error.retry_after_seconds))).encode())]
    if isinstance(error, MethodNotAllowed):
        return [(b"allow", ", ".join(error.allow).encode())]
    if error.status == 401:
        return [(b"www-authenticate", b"Bearer")]
    return []


def _too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"Payload too large (max {most // 1024}KB)", limit_bytes=most)
