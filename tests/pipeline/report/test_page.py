"""The report's file, without a browser: what stands in it, and that it is the same each time."""

import json
import re

import pytest

from parley.pipeline.report import words
from parley.pipeline.report.checks import check_hubs
from parley.pipeline.report.findings import Findings, Row
from parley.pipeline.report.markup import Column, Markup, element, table
from parley.pipeline.report.network import HEIGHT, WIDTH, Node, place
from parley.pipeline.report.page import render
from tests.browser import xss
from tests.pipeline.report import samples


def test_the_same_findings_give_the_same_file() -> None:
    assert render(samples.team(), made_at_ms=1) == render(samples.team(), made_at_ms=1)


def test_no_text_of_an_agent_stands_in_the_file_as_markup() -> None:
    html = render(samples.hostile(), made_at_ms=1)
    ours = html.index("<script>")
    tags = [text for number, each in enumerate(xss.HTML) if "<" in each and (text := xss.armed(number))]
    assert [text for text in tags if text in html[:ours]] == []
    values = re.search(r'id="charts">(.*?)</script>', html)
    assert values is not None
    assert not set("<>&") & set(values[1])
    assert json.loads(values[1]).keys() >= {"timeline", "heat"}


def test_the_scripts_are_named_by_the_policy_and_there_are_no_others() -> None:
    html = render(Findings(), made_at_ms=1)
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', html)
    assert policy is not None
    assert policy[1].count("sha256-") == html.count("<script>") == 2
    assert "unsafe-eval" not in policy[1]
    assert "default-src 'none'" in policy[1]


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (None, "–"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (94_000, "1.6 min"),
        (5_400_000, "1.5 h"),
        (864_000_000, "10 d"),
    ],
)
def test_durations_have_one_unit(ms: float | None, told: str) -> None:
    assert words.duration(ms) == told


def test_names_are_one_line_without_what_steers_text_and_not_too_long() -> None:
    assert words.name("a\n\u202eb\x00c") == "a b c"
    assert words.name(None) == ""
    assert len(words.name("x" * 500)) == words.NAME_CHARS_MAX
    assert words.drawn("<b>&amp;") == "&lt;b&gt;&amp;amp;"


def test_text_becomes_markup_by_being_escaped() -> None:
    made = element("p", ["<b>", element("i", "&")], title='"><script>')
    assert made == Markup('<p title="&quot;&gt;&lt;script&gt;">&lt;b&gt;<i>&amp;</i></p>')
    assert table("None", [Column("a")], [], "Nothing.") == Markup('<p class="empty">Nothing.</p>')


def test_circles_stay_in_the_drawing_and_apart_from_each_other() -> None:
    names = [f"agent {number}" for number in range(24)]
    pairs = [{"asker": one, "answerer": two, "answers": len(one + two)} for one in names for two in names if one < two]
    for chosen in (pairs, pairs[:1], []):
        nodes = [Node(name, 1, radius=20) for name in names]
        place(nodes, chosen)
        again = [Node(name, 1, radius=20) for name in names]
        place(again, chosen)
        assert nodes == again
        assert all(0 < node.x < WIDTH and 0 < node.y < HEIGHT for node in nodes)
        assert len({(round(node.x), round(node.y)) for node in nodes}) == len(nodes)
    place([], [])
    place([Node("alone", 1)], [])


def test_hubs_without_anything_odd_pass_and_the_others_are_named() -> None:
    fine: Row = dict.fromkeys(("missing", "gaps", "clock_jumps", "back_ms_max", "untimed", "quarantined"), 0)
    fine |= {"first_event_id": 3, "last_event_id": 12, "events": 10}
    assert {check.verdict for check in check_hubs([fine])} == {"ok"}
    assert {check.verdict for check in check_hubs([])} == {"ok"}
    odd = {**fine, "missing": 3, "gaps": 1, "clock_jumps": 1, "back_ms_max": 4_000, "untimed": 1, "quarantined": 2}
    found = {check.name: check for check in check_hubs([fine, odd])}
    assert {name: check.verdict for name, check in found.items() if check.verdict != "warn"} == {"doubles": "error"}
    assert found["event ids"].message == "3 ids are missing in 1 gap."
    assert found["doubles"].message == "3 rows are there more than once."
