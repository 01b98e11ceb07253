"""Links in a message, and link metadata."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core import limits
from parley.core.errors import InvalidInput
from parley.core.urls import check_link, extract_urls
from tests.link_examples import LINKS


@pytest.mark.parametrize(("text", "found"), LINKS)
def test_h9_links_are_those_that_a_reader_can_click(text: str, found: list[str]) -> None:
    assert extract_urls(text) == found


def test_a_link_is_found_once() -> None:
    assert extract_urls("http://a.example http://b.example http://a.example") == [
        "http://a.example",
        "http://b.example",
    ]


@pytest.mark.parametrize(
    ("allow", "block", "found"),
    [
        ((), (), ["https://example.org/", "https://www.example.org/", "https://notexample.org/"]),
        (("example.org",), (), ["https://example.org/", "https://www.example.org/"]),
        (("EXAMPLE.org",), (), ["https://example.org/", "https://www.example.org/"]),
        ((), ("example.org",), ["https://notexample.org/"]),
        (("example.org",), ("www.example.org",), ["https://example.org/"]),
        (("other.example",), (), []),
    ],
)
def test_allow_and_block_lists_hold_for_a_domain_and_its_subdomains(
    allow: tuple[str, ...], block: tuple[str, ...], found: list[str]
) -> None:
    text = "https://example.org/ https://www.example.org/ https://notexample.org/"
    assert extract_urls(text, allow=allow, block=block) == found


def test_a_link_that_is_too_long_is_passed_over() -> None:
    longest = "https://e.example/" + "a" * (limits.URL_CHARS_MAX - len("https://e.example/"))
    assert extract_urls(f"{longest} {longest}a https://e.example/b") == [longest, "https://e.example/b"]


def test_one_message_gives_a_bounded_number_of_links() -> None:
    text = " ".join(f"https://e.example/{number}" for number in range(limits.URLS_PER_MESSAGE_MAX + 50))
    assert len(extract_urls(text)) == limits.URLS_PER_MESSAGE_MAX


WRAPPERS = [
    *(("**", "**"), ("*", "*"), ("_", "_"), ("~~", "~~"), ("(", ")"), ("[", "]"), ("<", ">"), ('"', '"'), ("'", "'")),
    *(("`", "`"), ("see ", "."), ("", ", and"), ("what? ", "!"), ("- ", "\n"), ("# ", " #"), ("> ", "\n> more")),
    *(("[text](", ")"), ("[text](", ' "title")'), ("[text](<", ">)"), ("[a [b] c](", ")"), ("![picture](", ")")),
]
PATH = st.lists(st.sampled_from(["a", "/b", "?c=d", "_e", "(f)", "-g", "%20", "(h_(i))", "#j"]), max_size=8).map(
    "".join
)


@given(PATH, st.lists(st.sampled_from(WRAPPERS), min_size=1, max_size=4))
def test_h9_an_address_is_found_as_it_is_whatever_stands_around_it(path: str, wrappers: list[tuple[str, str]]) -> None:
    addresses = [f"https://{number}.example/x{path}" for number in range(len(wrappers))]
    texts = [before + address + after for address, (before, after) in zip(addresses, wrappers, strict=True)]
    assert extract_urls("\n\n".join(texts)) == addresses


@given(st.text())
def test_any_text_gives_only_http_links_that_are_in_it(
    text: str,
) -> None:
    for url in extract_urls(f"{text} https://example.org/{text}"):
        assert url in f"{text} https://example.org/{text}"
        assert url.lower().startswith(("http://", "https://"))


def test_a_plain_link_passes() -> None:
    check_link({"url": "https://example.org/a?b=c", "title": "A title", "description": None, "other": 1})


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "value_json.url"),
        ({"url": 5}, "value_json.url"),
        ({"url": "javascript:alert(1)"}, "value_json.url"),
        ({"url": "https://e.example/javascript:alert(1)"}, "value_json.url"),
        ({"url": "ftp://e.example"}, "value_json.url"),
        ({"url": "https://"}, "value_json.url"),
        ({"url": "http://[::1"}, "value_json.url"),
        ({"url": "https://e.example/<script>"}, "value_json.url"),
        ({"url": "https://e.example/\n"}, "value_json.url"),
        ({"url": "https://e.example/" + "a" * limits.URL_CHARS_MAX}, "value_json.url"),
        ({"url": "https://e.example", "title": 5}, "value_json.title"),
        ({"url": "https://e.example", "title": "<b>"}, "value_json.title"),
        ({"url": "https://e.example", "title": "x" * (limits.URL_TEXT_CHARS_MAX + 1)}, "value_json.title"),
        ({"url": "https://e.example", "description": "JavaScript:1"}, "value_json.description"),
        ({"url": "https://e.example", "description": "a\x00b"}, "value_json.description"),
    ],
)
def test_link_metadata_that_a_page_could_not_show_safely_is_refused(value: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        check_link(value)
    assert refusal.value.details == {"field": field}
