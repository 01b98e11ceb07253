"""Answers that are no success become the errors of the product's tree."""

import msgspec
import pytest

from parley.client.refusals import decoded, error_from, retry_after_seconds
from parley.client.spool_feed import _Conversation
from parley.client.steps import HubAddress, Reply
from parley.core.errors import (
    ERRORS,
    InternalError,
    InvalidInput,
    ParleyError,
    RateLimited,
    ShuttingDown,
    Unavailable,
    UnsupportedMediaType,
)
from parley.core.wire_errors import UnknownRefusal
from parley.wire.answers import Channels

ON_WIRE = [kind for kind in ERRORS.values() if kind.on_wire]


def reply(code: str, status: int, **body: object) -> Reply:
    return Reply(status, msgspec.json.encode({"error": "why", "code": code, **body}), "7")


@pytest.mark.parametrize("kind", ON_WIRE, ids=lambda kind: kind.code)
def test_every_code_of_the_registry_comes_back_as_its_class(kind: type[ParleyError]) -> None:
    error = error_from(reply(kind.code, kind.status, details={"message": "a detail", "n": 1}))
    assert type(error) is kind
    assert str(error) == error.message == "why"
    assert error.details == {"message": "a detail", "n": 1}
    if isinstance(error, Unavailable):
        assert error.retry_after_seconds == 7


def test_classes_that_share_a_code_are_told_apart_by_status() -> None:
    assert type(error_from(reply("INVALID_INPUT", 415))) is UnsupportedMediaType
    assert type(error_from(reply("INVALID_INPUT", 422))) is InvalidInput


def test_an_answer_that_is_not_ours_keeps_its_status() -> None:
    error = error_from(Reply(502, b"<html>Bad gateway</html>"))
    assert isinstance(error, UnknownRefusal)
    assert (error.code, error.status, error.transient) == ("HTTP_502", 502, True)
    assert not error_from(Reply(404, b"Not Found")).transient


def test_an_unknown_refusal_does_not_enter_the_registry() -> None:
    error_from(reply("TIDE_IS_OUT", 400))
    assert "TIDE_IS_OUT" not in ERRORS


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), ("0.5", 0.5), (None, None), ("", None), ("-1", None), ("nan", None), ("inf", None), ("Wed, 21", None)],
)
def test_retry_after_is_taken_when_it_is_a_number_of_seconds(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(Reply(503, b"", header)) == seconds


def test_without_a_header_a_known_error_keeps_the_wait_of_its_class() -> None:
    answer = Reply(503, b'{"error":"x","code":"SHUTTING_DOWN"}')
    error = error_from(answer)
    assert isinstance(error, ShuttingDown)
    assert error.retry_after_seconds == ShuttingDown.retry_after_seconds
    limited = error_from(Reply(429, b'{"error":"x","code":"RATE_LIMITED"}'))
    assert isinstance(limited, RateLimited)
    assert limited.retry_after_seconds == RateLimited.retry_after_seconds


@pytest.mark.parametrize("body", [b"{", b'{"channels":"\xff"}', b'{"channels":' + b"[" * 100_000, b"[]"], ids=len)
def test_what_cannot_be_read_is_an_error_of_ours(body: bytes) -> None:
    with pytest.raises(InternalError, match="The answer cannot be read"):
        decoded(body, Channels, "The answer")
    asked = _Conversation(HubAddress("http://127.0.0.1:1", "token", "db_1", "inst_1")).greet('{"type":"hello"}')
    asked.send(None)
    with pytest.raises(InternalError, match="cannot be read"):
        asked.send(Reply(200, body))
