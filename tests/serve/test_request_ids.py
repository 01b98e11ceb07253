"""Request ids: the caller's own if it is safe to echo, else a fresh one."""

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.limits import REQUEST_ID_CHARS_MAX
from parley.serve import RequestIds, request_id


@pytest.mark.parametrize("header", [b"a", b"test-request-123", b"trace:0af7/b9c7@host_1~x=,+#", b"x" * 128])
def test_a_usable_id_comes_back_as_it_was_sent(header: bytes) -> None:
    assert request_id(header) == header.decode()


@pytest.mark.parametrize(
    "header", [None, b"", b"x" * 129, b"a b", b"a\r\nSet-Cookie: x", b"<script>", b'"', b"\xc3\xbc", b"a\x00", b"a\n"]
)
def test_anything_else_gets_a_fresh_uuid_of_version_4(header: bytes | None) -> None:
    made = request_id(header)
    assert uuid.UUID(made).version == 4
    assert str(uuid.UUID(made)) == made


def test_fresh_ids_differ() -> None:
    assert len({request_id(None) for _ in range(10_000)}) == 10_000


def test_the_counter_wraps_without_leaving_the_form() -> None:
    ids = RequestIds("d9428888-122b-41e1-885c-ffffffffffff")
    assert ids(None) == "d9428888-122b-41e1-885c-ffffffffffff"
    assert ids(None) == "d9428888-122b-41e1-885c-000000000000"


@given(st.binary(max_size=200))
def test_every_id_is_safe_in_a_header_and_in_a_log_line(header: bytes) -> None:
    assert re.fullmatch(rf"[A-Za-z0-9._~:/@+=,#-]{{1,{REQUEST_ID_CHARS_MAX}}}", request_id(header))
