"""What a message's text becomes: safe nodes, every plugin's finding on exactly its characters, and bounded work."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from parley.core.links import clickable_addresses
from parley.plugin import find, link
from tests.browser.browsers import open_window
from tests.browser.hubs import PageHub
from tests.link_examples import LINKS

LARGEST = 65_536
"""Characters of the longest message."""
_PREPARE = """async () => {
  const { render } = await import("/ui/assets/js/markdown.js");
  window.draw = (text, enrichments) => {
    const place = document.createElement("div");
    place.append(render(text, { enrichments }));
    document.body.replaceChildren(place);
    return place;
  };
  window.outline = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    const inside = [...node.childNodes].map(outline).join("");
    return node.localName === "br" ? "/" : `${node.localName}(${inside})`;
  };
}"""


@pytest.fixture(scope="module")
def lab(chromium: Browser, hub: PageHub) -> Iterator[Page]:
    """The page's modules under the page's own policy, without anybody logged in."""
    window = open_window(chromium, {hub.url})
    window.page.goto(f"{hub.url}/ui")
    window.page.evaluate(_PREPARE)
    yield window.page
    window.context.close()


def outline(lab: Page, text: str) -> str:
    """The elements and texts, such as ``p(a strong(b))``."""
    return lab.evaluate("(text) => [...draw(text, []).childNodes].map(outline).join('')", text)


def finding(text: str, part: str, kind: str, **data: Any) -> dict[str, Any]:
    """An enrichment over the only place where ``part`` stands, counted in code points as plugins count."""
    assert text.count(part) == 1
    start = text.index(part)
    return {"kind": kind, "span": {"start": start, "end": start + len(part)}, "data": data, "plugin_name": "links"}


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("plain", "p(plain)"),
        ("one\ntwo\r\nthree", "p(one/two/three)"),
        ("one\n\ntwo", "p(one)p(two)"),
        ("**bold** *it* _it_ ~~gone~~", "p(strong(bold) em(it) em(it) del(gone))"),
        ("***both** one*", "p(em(strong(both) one))"),
        ("**a *b* c**", "p(strong(a em(b) c))"),
        ("2 * 3 * 4, snake_case_name, __init__.py", "p(2 * 3 * 4, snake_case_name, __init__.py)"),
        ("**open *and `never", "p(**open *and `never)"),
        (r"\*plain\* \`too\`", "p(*plain* `too`)"),
        ("`a * b` ``c ` d``", "p(code(a * b) code(c ` d))"),
        ("`**not bold** <b>`", "p(code(**not bold** <b>))"),
        ("<b>no</b> &amp; <script>x</script>", "p(<b>no</b> &amp; <script>x</script>)"),
        ("# one\n### three ###", "h4(one)h6(three)"),
        ("#hashtag", "p(#hashtag)"),
        ("---", "hr()"),
        ("> said\n> > before\nanswer", "blockquote(p(said)blockquote(p(before)))p(answer)"),
        ("- a\n- b\n  - c\n- d", "ul(li(p(a))li(p(b)ul(li(p(c))))li(p(d)))"),
        ("1. a\n2. b\n   more", "ol(li(p(a))li(p(b/more)))"),
        ("It was\n1984. A year.", "p(It was/1984. A year.)"),
        ("- [x] done\n- [ ] open", "ul(li(span()p(done))li(span()p(open)))"),
        ("| a | b |\n|--|-:|\n| 1 | **2** |", "div(table(thead(tr(th(a)th(b)))tbody(tr(td(1)td(strong(2))))))"),
        ("a | b\nis no table", "p(a | b/is no table)"),
        ("[a](https://x.example)", "p(a(a))"),
        ("[a **b**](https://x.example/(c))", "p(a(a strong(b)))"),
        ("![a picture](https://x.example/p.png)", "p(a(a picture))"),
        ("[![badge](https://x.example/b)](https://y.example)", "p(a(badge))"),
        ("[no](ftp://x.example) [no](/here)", "p([no](ftp://x.example) [no](/here))"),
        ("(see https://x.example/a_b).", "p((see a(https://x.example/a_b)).)"),
        ("<https://x.example>", "p(a(https://x.example))"),
        ("**https://x.example**", "p(strong(a(https://x.example)))"),
    ],
)
def test_markdown_becomes_these_nodes(lab: Page, text: str, drawn: str) -> None:
    assert outline(lab, text) == drawn


def assert_links(lab: Page, expected: dict[str, list[str]]) -> None:
    """The page draws these links, each as the browser will open it."""
    drawn, meant = lab.evaluate(
        """([texts, found]) => [
          texts.map((text) => [...draw(text, []).querySelectorAll("a")].map((one) => one.href)),
          found.map((addresses) => addresses.map((address) => new URL(address).href)),
        ]""",
        [list(expected), list(expected.values())],
    )
    assert dict(zip(expected, drawn, strict=True)) == dict(zip(expected, meant, strict=True))


def test_the_page_makes_links_of_what_the_hub_finds(lab: Page) -> None:
    assert_links(lab, dict(LINKS))


PIECES = [*"`*_~[]()<>!|#'\".,: \n\\", "](", "```\n", "\n\n", "> ", "- ", "1. ", "\t", "|-|-|\n", "a", "é"]
ADDRESSES = ["https://x.example", "http://y.example/p_(q)", "HTTPS://Z.example/?a=b#c"]


@settings(max_examples=20)
@given(st.lists(st.lists(st.sampled_from(PIECES + ADDRESSES * 4), max_size=30), min_size=20, max_size=20))
def test_the_page_and_the_hub_find_the_same_links_in_any_text(lab: Page, pieces: list[list[str]]) -> None:
    texts = {"".join(each) for each in pieces}
    assert_links(lab, {text: list(clickable_addresses(text)) for text in texts})


def test_a_code_block_has_its_language_and_can_be_copied(lab: Page) -> None:
    lab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab.evaluate("(text) => void draw(text, [])", "```py extra\nif x:\n    **y**\n```\nafter")
    assert lab.locator("figure figcaption").inner_text().strip() == "py"
    assert lab.locator("figure pre").inner_text() == "if x:\n    **y**"
    lab.get_by_role("button", name="Copy code").click()
    lab.locator("[data-copied=yes]").wait_for()
    assert lab.evaluate("() => navigator.clipboard.readText()") == "if x:\n    **y**"


@pytest.mark.parametrize(
    "text",
    [
        "see SPAN here",
        "😀👩‍👩‍👧 before SPAN after 😀",
        "e\u0301a\u0308 combining SPAN",
        "שלום SPAN עולם",
        "**bold SPAN bold**",
        "*it **both SPAN** it*",
        "in `code SPAN` span",
        "``😀 ` SPAN``",
        "- item\n  - deep *SPAN*",
        "> quoted\n> > 😀 SPAN",
        "| a | b |\n|---|---|\n| 😀 | SPAN |",
        "```\n😀 code\n    SPAN\n```",
        "## head SPAN",
        r"\*escaped\* SPAN",
        "- [x] 😀 SPAN",
        "first\r\n\tSPAN",
    ],
)
def test_a_finding_lies_on_exactly_its_characters(lab: Page, text: str) -> None:
    script = """([text, found]) => [...draw(text, [found]).querySelectorAll(".md-ref, .md-note")]
        .map((node) => node.textContent).join("")"""
    for part in ("src/__init__.py", "😀/x_y.py", "קובץ.py"):
        whole = text.replace("SPAN", part)
        for kind in ("file_path", "note"):
            assert lab.evaluate(script, [whole, finding(whole, part, kind, path=part)]) == part


def test_formatting_does_not_cut_a_reference_but_a_reference_may_stand_inside_it(lab: Page) -> None:
    text = "**see a_*_b/*.py now**"
    drawn = lab.evaluate(
        "([text, found]) => [...draw(text, [found]).childNodes].map(outline).join('')",
        [text, finding(text, "a_*_b/*.py", "file_path", path="a_*_b/*.py")],
    )
    assert drawn == "p(strong(see span(a_*_b/*.py) now))"


def test_findings_may_overlap_and_reach_over_formatting(lab: Page) -> None:
    text = "one **two src/a.py three** four"
    findings = [
        finding(text, "one **two src", "mood", tone="calm"),
        finding(text, "src/a.py three** fo", "mood", tone="glad"),
        finding(text, "src/a.py", "file_path", path="src/a.py"),
    ]
    script = """([text, found]) => [...draw(text, found).querySelectorAll('mark')]
        .map((node) => [node.textContent, node.title.split('\\n').length])"""
    assert lab.evaluate(script, [text, findings]) == [
        ["one ", 1],
        ["two ", 1],
        ["src", 2],
        ["/a.py", 1],
        [" three", 1],
        [" fo", 1],
    ]
    assert lab.locator("[role=button]").evaluate_all("all => all.map((one) => [one.textContent, one.tabIndex])") == [
        ["src", 0],
        ["/a.py", -1],
    ]


def test_what_the_authors_helper_returns_is_a_link(lab: Page) -> None:
    text = "fixed with WEB-42, not WEB-43"
    found = [link(match, f"https://tracker.example/{match[0]}") for match in find(r"WEB-42", text)]
    found += [link(match, "javascript:alert(1)") for match in find(r"WEB-43", text)]
    lab.evaluate("([text, found]) => void draw(text, found)", [text, msgspec.to_builtins(found)])
    leads = lab.get_by_role("link").evaluate_all("all => all.map((one) => [one.textContent, one.href])")
    assert leads == [["WEB-42", "https://tracker.example/WEB-42"]]


@pytest.mark.parametrize(
    "span",
    [{"start": 4, "end": 3}, {"start": -1, "end": 2}, {"start": 2, "end": 900}, {"start": 1.5, "end": 2}, {}, None],
)
def test_a_span_that_fits_nowhere_is_left_out(lab: Page, span: Any) -> None:
    script = "([text, span]) => [...draw(text, [{ kind: 'url', span, data: {} }]).childNodes].map(outline).join('')"
    assert lab.evaluate(script, ["some text", span]) == "p(some text)"


def test_references_lead_where_they_say(lab: Page) -> None:
    text = "msg_abc at src/app.py:12 and https://x.example/a, or bad"
    findings = [
        finding(text, "msg_abc", "message", message_id="msg_abc"),
        finding(text, "src/app.py:12", "code_ref", path="src/app.py", line=12, end_line=14),
        finding(text, "https://x.example/a", "url", url="https://x.example/a"),
        finding(text, "bad", "url", url="javascript:alert(1)"),
    ]
    lab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab.evaluate("([text, found]) => void draw(text, found)", [text, findings])
    assert lab.get_by_role("link", name="msg_abc").get_attribute("href") == "#/m/msg_abc"
    outside = lab.get_by_role("link", name="https://x.example/a")
    assert outside.get_attribute("rel") == "noopener noreferrer"
    assert outside.get_attribute("target") == "_blank"
    assert lab.get_by_role("link").count() == 2
    place = lab.get_by_role("button", name="src/app.py:12")
    assert "src/app.py:12-14" in (place.get_attribute("title") or "")
    place.press("Enter")
    lab.locator("[data-copied=yes]").wait_for()
    assert lab.evaluate("() => navigator.clipboard.readText()") == "src/app.py:12-14"


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>",
        "<svg><script>alert(1)</script></svg>",
        "[x](javascript:alert(1)) [x](JaVaScRiPt:alert(1)) [x](\tjavascript:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>) ![x](data:image/svg+xml,<svg/onload=alert(1)>)",
        "<javascript:alert(1)> <a href=javascript:alert(1)>x</a>",
        '[x](https://x.example"onmouseover="alert(1)) <https://x.example"onclick=alert(1)>',
        "[x](vbscript:x) [x](//evil.example) [x](https:evil.example) [x](http://)",
        '```"><script>alert(1)</script>\n<script>alert(1)</script>\n```',
        "| <script>alert(1)</script> | [a](javascript:x) |\n|---|---|\n| <b onclick=x>y</b> | z |",
        "&#106;avascript:alert(1) <iframe srcdoc='<script>alert(1)</script>'>",
    ],
)
def test_nothing_that_could_run_comes_out(lab: Page, text: str) -> None:
    script = """(text) => {
      const elements = /^(script|iframe|img|object|embed|form|style|link|base|input)$/;
      const found = [];
      for (const node of draw(text, []).querySelectorAll("*")) {
        if (elements.test(node.localName)) found.push(node.localName);
        for (const { name, value } of node.attributes) {
          if (name.startsWith("on") || name === "style" || name === "src") found.push(name);
          if (name === "href" && !/^https?:[/][/][^/]/.test(value)) found.push(value);
        }
      }
      return found;
    }"""
    assert lab.evaluate(script, text) == []


def test_hidden_characters_are_shown_and_cannot_reorder_the_text(lab: Page) -> None:
    text = "user\u202e\u2066 }if\u2069 `a\u202eb` \U000e0049\U000e0049\U000e0049 z\u200bz"
    shown = lab.evaluate(
        "(text) => [...draw(text, []).querySelectorAll('.md-hidden')].map((n) => [n.dataset.codePoint, n.textContent])",
        text,
    )
    assert shown == [
        ["U+202E", "RLO"],
        ["U+2066", "LRI"],
        ["U+2069", "PDI"],
        ["U+202E", "RLO"],
        ["U+E0049", "U+E0049×3"],
        ["U+200B", "ZWSP"],
    ]
    assert "\u202e" not in lab.evaluate("() => document.body.textContent")


HOSTILE = {
    "brackets": "[" * LARGEST,
    "bracket pairs": "[" * (LARGEST // 2) + "]" * (LARGEST // 2),
    "links that never end": "[a](https://x" * (LARGEST // 13),
    "stars": "*" * LARGEST,
    "stars that open": "*a " * (LARGEST // 3),
    "stars of two lengths": "**a* " * (LARGEST // 5),
    "nested emphasis": "*a **a " * (LARGEST // 14) + "a** a* " * (LARGEST // 14),
    "strikes": "~~a" * (LARGEST // 3),
    "backticks": "`" * LARGEST,
    "backticks of all lengths": "".join("`" * length + " " for length in range(1, 360)),
    "quotes": ">" * LARGEST,
    "quotes of many lines": ("> " * 20 + "a\n") * (LARGEST // 42),
    "lists in lists": "".join("  " * depth + "- a\n" for depth in range(250)),
    "lists and quotes": "> - " * (LARGEST // 4),
    "numbers": "1. " * (LARGEST // 3),
    "pipes": "|" * LARGEST,
    "a table": "|a|b|\n|-|-|\n" + "|x|y|\n" * 10_000,
    "addresses": "https://a.b " * (LARGEST // 12),
    "angles": "<https://a" * (LARGEST // 10),
    "parentheses": "https://a.b/" + ")" * (LARGEST - 12),
    "fences": "```\n" * (LARGEST // 4),
    "a fence of blanks": "```" + " " * (LARGEST - 4) + "`",
    "hashes": "# " + "#" * (LARGEST - 2),
    "line breaks": "\n" * LARGEST,
    "short lines": "a\n" * (LARGEST // 2),
    "controls": "\u202e\u202d" * (LARGEST // 6),
    "backslashes": "\\" * LARGEST,
    "everything": "*_[`~<!\\>|" * (LARGEST // 10),
    "one long word": "a" * LARGEST,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_longest_hostile_text_makes_a_bounded_tree(lab: Page, text: str) -> None:
    script = """(text) => {
      const all = [...draw(text, []).querySelectorAll("*")];
      let deepest = 0;
      for (const leaf of all.filter((node) => node.firstElementChild === null)) {
        let depth = 0;
        for (let node = leaf; node.parentElement; node = node.parentElement) depth += 1;
        deepest = Math.max(deepest, depth);
      }
      return [all.length, deepest];
    }"""
    elements, depth = lab.evaluate(script, text)
    assert elements <= LARGEST + 10
    assert depth <= 64


def test_a_long_word_wraps(lab: Page) -> None:
    script = """(text) => {
      const place = draw(text, []);
      place.style.width = "300px";
      return [place.scrollWidth, place.clientWidth];
    }"""
    assert lab.evaluate(script, "a" * 2000 + " `" + "b" * 2000 + "`") == [300, 300]


@pytest.mark.parametrize(
    "word",
    ["A" * LARGEST, "\u0645" * 30_000, "\U0001f469\u200d\U0001f4bb" * 2000],
    ids=["letters", "joined letters", "emoji"],
)
def test_a_long_word_can_be_broken_without_shaping_all_of_it_again_for_each_line(lab: Page, word: str) -> None:
    script = """(text) => {
      const place = draw(text, []);
      const pieces = [];
      const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) pieces.push(walker.currentNode.data);
      return [place.textContent, pieces];
    }"""
    text, pieces = lab.evaluate(script, word)
    assert text == word
    assert max(map(len, pieces)) <= 2000
    assert not any(piece.startswith("\u200d") or piece.endswith("\u200d") for piece in pieces)
