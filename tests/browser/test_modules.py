"""The page's modules that only compute: finding words, finding by letters, telling times, and reading metrics."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.browsers import open_window
from tests.browser.hubs import PageHub


@pytest.fixture(scope="module")
def lab(chromium: Browser, hub: PageHub) -> Iterator[Page]:
    """A window that can load the page's modules, without anybody logged in."""
    window = open_window(chromium, {hub.url})
    window.page.goto(f"{hub.url}/ui")
    yield window.page
    window.context.close()


def call(lab: Page, module: str, function: str, *arguments: Any) -> Any:
    """Calls an exported function of a module."""
    script = """async ([module, name, args]) => (await import(`/ui/assets/js/${module}.js`))[name](...args)"""
    return lab.evaluate(script, [module, function, list(arguments)])


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("race", "A race, a Race; braces and races", ["race", "Race"]),
        ("rac*", "A race, a Racer; braces", ["race", "Racer"]),
        ('"race condition"', "a race, condition; a race  condition", ["race, condition", "race  condition"]),
        ("lease NOT test", "lease of the test", ["lease"]),
        ("outbox OR spool", "the spool and the outbox OR", ["spool", "outbox"]),
        ("NEAR(one two)", "one NEAR two", ["one", "two"]),
        ("cafe", "Café, CAFÉ, cafe\u0301 and cafes", ["Café", "CAFÉ", "cafe\u0301"]),
        ("x", "😀x y xx", ["x"]),
        ("über", "ÜBER uber", ["ÜBER", "uber"]),
        ("c++ (draft)", "C and a draft", ["C", "draft"]),
        ("***", "*** nothing", []),
    ],
)
def test_words_are_found_as_the_index_finds_them(lab: Page, query: str, text: str, found: list[str]) -> None:
    ranges = call(lab, "highlight", "findTerms", text, call(lab, "highlight", "termsOf", query))
    units = text.encode("utf-16-le")
    assert [units[each["from"] * 2 : each["to"] * 2].decode("utf-16-le") for each in ranges] == found


def test_without_an_index_any_part_of_a_word_is_found(lab: Page) -> None:
    terms = call(lab, "highlight", "wordsOf", "fix->s (x)")
    ranges = call(lab, "highlight", "findTerms", "prefix->suffix (x) fix", terms, {"whole": False})
    assert ranges == [{"from": 3, "to": 9}, {"from": 15, "to": 18}]


def test_an_excerpt_is_short_and_holds_the_first_word_found(lab: Page) -> None:
    text = "😀 word " * 200 + "\n\nneedle " + "after " * 200
    excerpt = call(lab, "highlight", "excerptOf", text, call(lab, "highlight", "termsOf", "needle"))
    assert "needle" in excerpt
    assert excerpt.startswith("… ")
    assert excerpt.endswith(" …")
    assert len(excerpt) < 320


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("gs", "Go to status", "Messages"),
        ("sess", "Session store", "Search messages"),
        ("dep", "Deploy", "A deeper problem"),
        ("log", "Log out", "Flaky tests in the long group"),
        ("rel", "Release", "Release notes of the last year"),
    ],
)
def test_the_likelier_name_scores_higher(lab: Page, query: str, better: str, worse: str) -> None:
    assert call(lab, "fuzzy", "fuzzy", query, better)["score"] > call(lab, "fuzzy", "fuzzy", query, worse)["score"]


def test_letters_that_do_not_occur_in_order_are_not_found(lab: Page) -> None:
    assert call(lab, "fuzzy", "fuzzy", "ba", "ab") is None
    assert call(lab, "fuzzy", "fuzzy", "abc", "ab") is None
    assert call(lab, "fuzzy", "fuzzy", "", "ab") == {"score": 0, "places": []}


_METRICS = """async ([before, after]) => {
  const { Between, Reading } = await import("/ui/assets/js/status/metrics.js");
  const between = new Between(new Reading(before, 1000), new Reading(after, 3000));
  const own = ({ endpoint }) => endpoint !== "/own";
  return {
    rate: between.rate("requests_total", own),
    times: between.quantiles("seconds", [0.5, 0.99]),
    missing: between.after.value("nothing"),
  };
}"""


def exposition(requests: int, own: int, *counts: int) -> str:
    """Prometheus' text with one counter and one histogram of three bounds."""
    bounds = ("0.001", "0.01", "+Inf")
    buckets = [f'seconds_bucket{{le="{bound}"}} {count}' for bound, count in zip(bounds, counts, strict=True)]
    return "\n".join(
        (
            "# TYPE requests_total counter",
            f'requests_total{{endpoint="/a \\"b\\"",status="200"}} {requests}.0',
            f'requests_total{{endpoint="/own",status="200"}} {own}.0',
            *buckets,
        )
    )


@pytest.mark.parametrize(
    ("before", "after", "rate", "times"),
    [
        pytest.param((10, 1, 0, 0, 0), (30, 9, 10, 10, 10), 10, [0.0005, 0.00099], id="all in the first bucket"),
        pytest.param((10, 0, 5, 5, 5), (10, 0, 5, 15, 15), 0, [0.0055, 0.00991], id="only what is new counts"),
        pytest.param((10, 0, 5, 5, 5), (10, 0, 5, 5, 5), 0, [None, None], id="nothing happened"),
        pytest.param((10, 0, 0, 0, 0), (10, 0, 0, 0, 4), 0, [0.01, 0.01], id="beyond the last bound"),
        pytest.param((100, 0, 90, 90, 90), (4, 0, 2, 2, 2), 2, [0.0005, 0.00099], id="the hub was started again"),
    ],
)
def test_rates_and_quantiles_come_from_what_grew(
    lab: Page, before: tuple[int, ...], after: tuple[int, ...], rate: float, times: list[float | None]
) -> None:
    found = lab.evaluate(_METRICS, [exposition(*before), exposition(*after)])
    assert found == {"rate": rate, "times": [pytest.approx(time) if time else None for time in times], "missing": None}


@pytest.mark.parametrize("function", ["clockTime", "secondsTime", "exactTime", "dayName", "relativeTime"])
def test_a_time_that_cannot_be_read_breaks_nothing(lab: Page, function: str) -> None:
    assert call(lab, "time", function, "yesterday-ish") == "unknown time"
    assert call(lab, "time", function, "2024-02-04T12:00:05Z") != "unknown time"
