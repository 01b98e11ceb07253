"""Requests as files, for programs that may open no socket: what stands in them, and how they are signed.

A file holds a signature in hexadecimal, a line break, and JSON. The signature is made with the workspace's token, which
is not in the file: whoever cannot read the token can neither make a request nor an answer that is believed.
"""

import hmac
from typing import Annotated, Final

import msgspec

from parley.core import untrusted_json
from parley.core.signing import sign

REQUESTS_NAME: Final = "requests"
ANSWERS_NAME: Final = "answers"
ALIVE_NAME: Final = "alive"
"""Touched by the hub every second or so, while it looks for requests."""
ALIVE_SECONDS: Final = 10.0
"""A hub that has touched it within this time is taken to be there."""

Id = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
_REQUEST: Final = b"spool request 1"
_ANSWER: Final = b"spool answer 1"
_SIGNATURE_CHARS: Final = 64


class SpoolRequest(msgspec.Struct, frozen=True):
    """What would be an HTTP request. ``id`` is also the name of its file, and is never used again."""

    id: Id
    made_ms: int
    method: str
    target: str
    """Path and query."""
    headers: dict[str, str] = {}
    body: str | None = None


class SpoolAnswer(msgspec.Struct, frozen=True):
    """What would be an HTTP answer."""

    id: Id
    status: int
    body: str
    retry_after: str | None = None


def request_file(request: SpoolRequest, token: str) -> bytes:
    """The content of a request's file."""
    return _signed(token, _REQUEST, msgspec.json.encode(request))


def answer_file(answer: SpoolAnswer, token: str) -> bytes:
    """The content of an answer's file."""
    return _signed(token, _ANSWER, msgspec.json.encode(answer))


def split_request(data: bytes) -> tuple[bytes, bytes, bytes]:
    """The purpose, the signature and the signed bytes of a request's file, for whoever knows which tokens count."""
    return (_REQUEST, *_split(data))


def read_answer(data: bytes, token: str) -> SpoolAnswer | None:
    """The answer in a file, or None if it was not made with this token or cannot be read."""
    signature, payload = _split(data)
    if not hmac.compare_digest(signature, sign(token.encode(), _ANSWER, payload)):
        return None
    try:
        return untrusted_json.decode(payload, SpoolAnswer)
    except msgspec.MsgspecError:
        return None


def _signed(token: str, purpose: bytes, payload: bytes) -> bytes:
    return sign(token.encode(), purpose, payload).hex().encode() + b"\n" + payload


def _split(data: bytes) -> tuple[bytes, bytes]:
    try:
        signature = bytes.fromhex(data[:_SIGNATURE_CHARS].decode("ascii"))
    except ValueError:
        return b"", data
    return signature, data[_SIGNATURE_CHARS + 1 :]
