"""What authors of plugins import."""

import re

import msgspec
import pytest

from parley.plugin import Attachment, Enrichment, Message, Span, find, link, mark


def message(content: str) -> Message:
    return Message("msg_1", "topic_1", "ch_1", "ann", content, 1, "2026-01-01T00:00:00.000Z")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("T-1 and T-2", ["T-1", "T-2"]),
        ("https://example.org/T-1 T-2", ["T-2"]),
        ("T-1 https://example.org/T-2 T-3 http://example.org T-4", ["T-1", "T-3", "T-4"]),
        ("see https://example.org/T-1.", []),
        ("T-https://example.org", []),
        ("nothing", []),
        ("", []),
    ],
)
def test_find_leaves_urls_alone(text: str, found: list[str]) -> None:
    assert [match[0] for match in find(r"T-\d+", message(text))] == found
    assert [match[0] for match in find(re.compile(r"T-\d+"), text)] == found


def test_a_match_that_runs_into_a_url_is_left_out() -> None:
    assert list(find(r"\S+ \S+", "see https://example.org")) == []
    assert [match[0] for match in find(r"\w+", "https://a.example/b c")] == ["c"]


def test_find_looks_into_urls_when_asked() -> None:
    assert [match[0] for match in find(r"T-\d+", "https://example.org/T-1", inside_urls=True)] == ["T-1"]


def test_an_empty_match_is_nothing() -> None:
    assert list(find(r"x*", "abc")) == []


def test_marks_and_links_cover_what_was_matched() -> None:
    (match,) = find(r"T-\d+", message("🎉 see T-42"))
    assert mark(match, "ticket", number=42) == Enrichment("ticket", Span(6, 10), {"number": 42})
    url = "https://tickets.example/T-42"
    assert link(match, url) == Enrichment("link", Span(6, 10), {"url": url})
    assert link(match, url, title="A", description="B").data == {"url": url, "title": "A", "description": "B"}


def test_the_shapes_on_the_wire_are_those_of_the_plan() -> None:
    assert msgspec.to_builtins(Enrichment("k", Span(0, 1), {"a": 1})) == {
        "kind": "k",
        "span": {"start": 0, "end": 1},
        "data": {"a": 1},
    }
    assert msgspec.to_builtins(Attachment("k", {"a": 1})) == {"kind": "k", "value_json": {"a": 1}}
    assert set(msgspec.to_builtins(Attachment("k", {}, "key", "d"))) == {"kind", "value_json", "key", "dedupe_key"}
