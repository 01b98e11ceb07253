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
        (enrichment(span={"start": True, "end": 6}), "span.start: must be a whole number, not true or false"),
        (enrichment(span={"start": 1.5, "end": 6}), "span.start: must be a whole number, not one with a fraction"),
        (enrichment(span=[6, 10]), "span: must be an object, not a list"),
        (enrichment(span={"start": 6}), "span.end: must be given"),
        ({"kind": "ticket", "data": {}}, "span: must be given"),
        (enrichment(kind=""), "kind: must not be empty"),
        (enrichment(kind=" "), "kind: must not be blank or contain control characters"),
        (enrichment(kind="a\nb"), "kind: must not be blank or contain control characters"),
        (enrichment(kind="k" * 101), "kind: must have at most 100 characters"),
        (enrichment(kind=3), "kind: must be a string, not a whole number"),
        (enrichment(data=[]), "data: must be an object, not a list"),
        (enrichment(colour="red"), "colour: is not known"),
        (enrichment(data=deep(limits.JSON_DEPTH_MAX)), "data is nested deeper than 64"),
        (enrichment(data={"a": "x" * BYTES_MAX}), f"data is larger than {BYTES_MAX} bytes"),
        (enrichment(data={"a": 2**53 + 2}), "data: not representable as canonical JSON"),
        (enrichment(kind="link"), "data.url must be a string"),
        (enrichment(kind="url", data={"url": "javascript:alert(1)"}), "data.url must be a plain http or https link"),
        (enrichment(kind="link", data={"url": "https://a.example", "title": "<b>"}), "data.title must be plain text"),
        ("T-42", "must be an object, not a string"),
        (None, "must be an object, not null"),
        ([], "must be an object, not a list"),
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
        ({"kind": "ticket"}, "value_json: must be given"),
        (attachment(value_json=[]), "value_json: must be an object, not a list"),
        (attachment(key="k" * 201), "key: must have at most 200 characters"),
        (attachment(key="a\x00"), "key: must not contain control characters"),
        (attachment(key=3), "key: must be a string or null, not a whole number"),
        (attachment(dedupe_key=""), "dedupe_key: must not be empty"),
        (attachment(dedup_key="d"), "dedup_key: is not known"),
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
