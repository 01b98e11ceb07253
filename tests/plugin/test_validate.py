"""What a plugin returned is believed only as far as the hub's own rules go; each mistake is named."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core import limits
from parley.core.errors import InvalidInput
from parley.plugin import Message, Span
from parley.plugin.validate import check_attachments, check_enrichments
from parley.wire.events import Enrichment
from parley.wire.requests import AddAttachment

CONTENT = "🎉 see T-42"
MESSAGE = Message("msg_1", "topic_1", "ch_1", "ann", CONTENT, 1, "2026-01-01T00:00:00.000Z")
BYTES_MAX = limits.ATTACHMENT_BYTES_MAX


def enrichment(**changed: Any) -> dict[str, Any]:
    return {"kind": "ticket", "span": {"start": 6, "end": 10}, "data": {"n": 42}} | changed


def attachment(**changed: Any) -> dict[str, Any]:
    return {"kind": "ticket", "value_json": {"n": 42}} | changed


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_spans_count_characters() -> None:
    found = check_enrichments(MESSAGE, [enrichment(), enrichment(span={"start": 0, "end": len(CONTENT)})], BYTES_MAX)
    assert found.enrichments[0] == Enrichment("ticket", Span(6, 10), {"n": 42})
    assert CONTENT[6:10] == "T-42"
    assert found.attachments == ()


def test_an_attachment_says_which_message_it_came_from() -> None:
    found = check_attachments(MESSAGE, [attachment(), attachment(key="k", dedupe_key="d")], BYTES_MAX)
    assert found.attachments[0] == AddAttachment("ticket", {"n": 42}, None, None, "msg_1")
    assert found.attachments[1] == AddAttachment("ticket", {"n": 42}, "k", "d", "msg_1")
    assert found.enrichments == ()


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (enrichment(span={"start": 6, "end": 11}), "span from 6 to 11 is not a part of the content's 10 characters"),
        (enrichment(span={"start": 6, "end": 6}), "span from 6 to 6 is not a part"),
        (enrichment(span={"start": 7, "end": 6}), "span from 7 to 6 is not a part"),
        (enrichment(span={"start": -1, "end": 6}), "span from -1 to 6 is not a part"),
        (enrichment(span={"start": True, "end": 6}), "Expected `int`, got `bool` - at `span.start`"),
        (enrichment(span={"start": 1.5, "end": 6}), "Expected `int`, got `float` - at `span.start`"),
        (enrichment(span=[6, 10]), "Expected `object`, got `array` - at `span`"),
        (enrichment(span={"start": 6}), "Object missing required field `end` - at `span`"),
        ({"kind": "ticket", "data": {}}, "Object missing required field `span`"),
        (enrichment(kind=""), "Expected `str` of length >= 1 - at `kind`"),
        (enrichment(kind=" "), "The text must not be blank or contain control characters - at `kind`"),
        (enrichment(kind="a\nb"), "The text must not be blank or contain control characters - at `kind`"),
        (enrichment(kind="k" * 101), "Expected `str` of length <= 100 - at `kind`"),
        (enrichment(kind=3), "Expected `str`, got `int` - at `kind`"),
        (enrichment(data=[]), "Expected `object`, got `array` - at `data`"),
        (enrichment(colour="red"), "Object contains unknown field `colour`"),
        (enrichment(data=deep(limits.JSON_DEPTH_MAX)), "data is nested deeper than 64"),
        (enrichment(data={"a": "x" * BYTES_MAX}), f"data is larger than {BYTES_MAX} bytes"),
        (enrichment(data={"a": 2**53 + 2}), "data: not representable as canonical JSON"),
        (enrichment(kind="link"), "data.url must be a string"),
        (enrichment(kind="url", data={"url": "javascript:alert(1)"}), "data.url must be a plain http or https link"),
        (enrichment(kind="link", data={"url": "https://a.example", "title": "<b>"}), "data.title must be plain text"),
        ("T-42", "Expected `object`, got `str`"),
        (None, "Expected `object`, got `null`"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_a_wrong_enrichment_is_named(result: Any, told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_enrichments(MESSAGE, [enrichment(), result], BYTES_MAX)
    assert refused.value.message.startswith("enrich(), result 2: ")
    assert told in refused.value.message


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"kind": "ticket"}, "Object missing required field `value_json`"),
        (attachment(value_json=[]), "Expected `object`, got `array` - at `value_json`"),
        (attachment(key="k" * 201), "Expected `str` of length <= 200 - at `key`"),
        (attachment(key="a\x00"), "The text must not contain control characters - at `key`"),
        (attachment(key=3), "Expected `str | null`, got `int` - at `key`"),
        (attachment(dedupe_key=""), "Expected `str` of length >= 1 - at `dedupe_key`"),
        (attachment(dedup_key="d"), "Object contains unknown field `dedup_key`"),
        (attachment(value_json=deep(limits.JSON_DEPTH_MAX)), "value_json is nested deeper than 64"),
        (attachment(value_json={"a": "x" * BYTES_MAX}), f"value_json is larger than {BYTES_MAX} bytes"),
        (attachment(kind="url", value_json={"url": "file:///etc/passwd"}), "value_json.url must be a plain http"),
        (attachment(kind="url", value_json={}), "value_json.url must be a string"),
    ],
)
def test_a_wrong_attachment_is_named(result: Any, told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_attachments(MESSAGE, [attachment(), result], BYTES_MAX)
    assert refused.value.message.startswith("extract(), result 2: ")
    assert told in refused.value.message


def test_there_are_never_more_than_a_page_can_draw() -> None:
    check_enrichments(MESSAGE, [enrichment()] * 500, BYTES_MAX)
    with pytest.raises(InvalidInput, match=r"enrich\(\) returned more than 500 results"):
        check_enrichments(MESSAGE, [enrichment()] * 501, BYTES_MAX)
    check_attachments(MESSAGE, [attachment()] * 100, BYTES_MAX)
    with pytest.raises(InvalidInput, match=r"extract\(\) returned more than 100 results"):
        check_attachments(MESSAGE, [attachment()] * 101, BYTES_MAX)


def test_all_of_it_together_stays_small_enough_for_one_event() -> None:
    large = enrichment(data={"a": "x" * 10_000})
    check_enrichments(MESSAGE, [large] * 26, BYTES_MAX)
    with pytest.raises(InvalidInput, match="more than 262144 bytes of metadata"):
        check_enrichments(MESSAGE, [large] * 27, BYTES_MAX)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["kind", "span", "data", "start", "end", "value_json", "x"]), inner)
    ),
    max_leaves=20,
)


@given(st.lists(ANYTHING, max_size=5))
def test_whatever_comes_is_taken_or_refused(results: list[Any]) -> None:
    for check in (check_enrichments, check_attachments):
        try:
            found = check(MESSAGE, results, BYTES_MAX)
        except InvalidInput:
            continue
        assert len(found.enrichments) + len(found.attachments) == len(results)
