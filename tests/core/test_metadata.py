"""Metadata that people see: canonical, bounded, and with links that a page can show."""

from typing import Any

import pytest

from parley.core import limits
from parley.core.errors import InvalidInput, PayloadTooLarge
from parley.core.metadata import check_metadata
from parley.core.urls import extract_urls, url_spans


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for level in range(levels - 1):
        value = {"a": [value]} if level % 2 else {"a": value}
    return value


def test_the_text_is_canonical() -> None:
    assert check_metadata("note", {"b": 1.0, "a": "é"}, 100) == '{"a":"é","b":1}'


def test_the_size_counts_bytes() -> None:
    assert check_metadata("note", {"a": "éé"}, 12) == '{"a":"éé"}'
    with pytest.raises(PayloadTooLarge, match="data is larger than 11 bytes"):
        check_metadata("note", {"a": "éé"}, 11, field="data")


def test_depth_is_bounded_through_objects_and_lists() -> None:
    check_metadata("note", {"a": [[[{}]]]}, 100)
    deep: Any = {}
    for _ in range(limits.JSON_DEPTH_MAX - 1):
        deep = {"a": deep}
    check_metadata("note", deep, 10_000)
    for too_deep in ({"a": deep}, {"a": [deep]}, nested(100_000)):
        with pytest.raises(InvalidInput, match="value_json is nested deeper than 64"):
            check_metadata("note", too_deep, 10_000_000)


def test_what_is_wrong_is_named_by_its_field() -> None:
    with pytest.raises(InvalidInput, match=r"^data: not representable") as refused:
        check_metadata("note", {"a": float("nan")}, 100, field="data")
    assert refused.value.details == {"field": "data"}


@pytest.mark.parametrize("kind", ["url", "link"])
def test_links_must_be_links(kind: str) -> None:
    check_metadata(kind, {"url": "https://a.example"}, 100)
    with pytest.raises(InvalidInput, match=r"data\.url must be a plain http or https link"):
        check_metadata(kind, {"url": "javascript:alert(1)"}, 100, field="data")
    check_metadata("other", {"url": "javascript:alert(1)"}, 100)


def test_spans_of_urls_are_those_that_are_extracted() -> None:
    text = "a https://one.example/x. (http://two.example) b"
    assert [text[start:end] for start, end in url_spans(text)] == extract_urls(text)
    assert url_spans("none") == []
