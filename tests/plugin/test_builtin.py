"""The plugins that come with Parley: what they find, what they leave alone, and what hostile text costs."""

import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core import limits
from parley.core.settings import BUILTIN_PLUGINS
from parley.plugin import Message
from parley.plugin.builtin import links, urls
from parley.plugin.validate import check_attachments, check_enrichments


def message(content: str) -> Message:
    return Message("msg_1", "topic_1", "ch_1", "ann", content, 1, "2026-01-01T00:00:00.000Z")


def marked(content: str, **config: Any) -> list[tuple[str, str, dict[str, Any]]]:
    found = links.enrich(message(content), config)
    return [(each.kind, content[each.span.start : each.span.end], each.data) for each in found]


@pytest.mark.parametrize(
    "path",
    [
        "src/app.py",
        "./run.sh",
        "../up/there.txt",
        "~/notes.md",
        "/etc/hosts",
        "/usr/local/bin/thing",
        ".github/workflows/ci.yml",
        "node_modules/@types/node/index.d.ts",
        "deploy/Dockerfile",
        "config/.env",
        "docs/über/straße.md",
        "a-b/c+d/e_f.test.tsx",
    ],
)
def test_paths_are_found_whatever_stands_around_them(path: str) -> None:
    for text in (path, f"see {path}.", f"({path})", f"`{path}`", f"**{path}**", f'"{path}",', f"🎉 {path}: look"):
        assert marked(text) == [("file_path", path, {"path": path})]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("src/app.py:120", {"path": "src/app.py", "line": 120}),
        ("src/app.py:120-140", {"path": "src/app.py", "line": 120, "end_line": 140}),
        ("src/app.py:120:7", {"path": "src/app.py", "line": 120}),
        ("src/app.py#L10", {"path": "src/app.py", "line": 10}),
        ("src/app.py#L10-L20", {"path": "src/app.py", "line": 10, "end_line": 20}),
        ("src/app.py#L10-20", {"path": "src/app.py", "line": 10, "end_line": 20}),
        ("README.md:4", {"path": "README.md", "line": 4}),
        ("/etc/hosts:1", {"path": "/etc/hosts", "line": 1}),
    ],
)
def test_places_in_code_are_found(text: str, data: dict[str, Any]) -> None:
    for around in (text, f"at {text}, there", f"({text}).", f"`{text}`"):
        assert marked(around) == [("code_ref", text, data)]


def test_ids_of_messages_are_found() -> None:
    text = "as in msg_mi1k2x3y00000001, and (msg_old-one)."
    assert marked(text) == [
        ("message", "msg_mi1k2x3y00000001", {"message_id": "msg_mi1k2x3y00000001"}),
        ("message", "msg_old-one", {"message_id": "msg_old-one"}),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "and/or", "24/7", "1/2", "2026/02/04", "either/or/both", "TCP/IP", "w/o", "origin/main", "/help", "//",
        "README.md", "e.g.", "12:30", "localhost:8080", "127.0.0.1:80", "example.com:443", "git@example.org:a/b.git",
        "src/app.py:0", "src/app.py:9-3", "src/app.py:x", "a.py:99999999999", "src/app.py#Lx",
        "https://example.org/src/app.py:3", "http://example.org/msg_mi1k2x3y00000001", "see https://a.example/b/c.md.",
        "msg_", f"msg_{'x' * 61}", "xmsg_mi1k2x3y00000001", "a/b.c" * 200, "", "...", "~/", "a//b.py",
    ],
)  # fmt: skip
def test_what_only_looks_like_it_is_left_alone(text: str) -> None:
    assert marked(text) == []


def test_each_kind_can_be_switched_off() -> None:
    text = "src/a.py src/a.py:1 msg_1x"
    assert [kind for kind, _, _ in marked(text)] == ["file_path", "code_ref", "message"]
    assert [kind for kind, _, _ in marked(text, paths=False)] == ["code_ref", "message"]
    assert [kind for kind, _, _ in marked(text, code=False, messages=False)] == ["file_path"]


HOSTILE = [
    "a/", "/", "a.b:", "#L1", "msg_", "msg_a ", "a/b.c:1 ", ":", "a.py#L1-L", "http://", "http://a", ".", "a.", "-",
    "~/", "a/b.c ", "..//", "@", "é/", "a.py:1-", "١.py:١ ", "a.b/" * 100 + " ",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_gives_no_more_than_a_message_may_hold(piece: str) -> None:
    content = (piece * limits.CONTENT_BYTES_MAX)[: limits.CONTENT_BYTES_MAX]
    content = content.encode()[: limits.CONTENT_BYTES_MAX].decode(errors="ignore")
    found = links.enrich(message(content), {})
    check_enrichments(message(content), msgspec.to_builtins(found), limits.ATTACHMENT_BYTES_MAX)


def steps(piece: str, repeats: int) -> int:
    """How many lines of Python run for this text: a measure of work that no busy machine changes."""
    count = 0

    def step(*_: Any) -> Any:
        nonlocal count
        count += 1
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        links.enrich(message(piece * repeats), {})
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("piece", HOSTILE)
def test_twice_the_text_is_at_most_about_twice_the_work(piece: str) -> None:
    assert steps(piece, 200) <= 2 * steps(piece, 100) + 200


@given(st.text(alphabet="ab/.:#L-~1 msg_hтp\n", max_size=300))
def test_whatever_is_found_is_a_part_of_the_text_and_no_two_overlap(content: str) -> None:
    end = 0
    for found in links.enrich(message(content), {}):
        assert end <= found.span.start < found.span.end <= len(content)
        end = found.span.end


def extracted(content: str, **config: Any) -> list[str]:
    results = msgspec.to_builtins(urls.extract(message(content), config))
    found = check_attachments(message(content), results, limits.ATTACHMENT_BYTES_MAX).attachments
    assert all(each.kind == "url" and each.dedupe_key == each.value_json["url"] for each in found)
    return [each.value_json["url"] for each in found]


def test_links_become_attachments_that_the_lists_let_through() -> None:
    text = "https://a.example/x http://b.example https://sub.a.example https://a.example/x"
    assert extracted(text) == ["https://a.example/x", "http://b.example", "https://sub.a.example"]
    assert extracted(text, allow=["a.example"]) == ["https://a.example/x", "https://sub.a.example"]
    assert extracted(text, block=["a.example"]) == ["http://b.example"]


def test_a_link_that_cannot_be_shown_does_not_cost_the_others() -> None:
    assert extracted("https://a.example/javascript:x https://b.example") == ["https://b.example"]


def test_many_links_are_as_many_as_may_be() -> None:
    assert len(extracted(" ".join(f"https://a.example/{n}" for n in range(200)))) == limits.EXTRACTED_PER_MESSAGE_MAX


def test_the_built_ins_are_those_of_the_settings() -> None:
    assert {"links": callable(links.enrich), "urls": callable(urls.extract)} == dict.fromkeys(BUILTIN_PLUGINS, True)
