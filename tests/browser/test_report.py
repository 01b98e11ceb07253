"""The pipeline's report in a real browser, opened as the file that it is."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from parley.pipeline.report.findings import Findings
from parley.pipeline.report.page import render
from tests.browser import xss
from tests.browser.browsers import DESKTOP, PHONE, Window, open_window
from tests.browser.test_accessibility import faults
from tests.pipeline.report import samples

MADE_AT_MS = samples.START_MS + samples.DAYS * samples.DAY_MS
OpenReport = Callable[..., Window]

_DRAWN = """
(charts) => charts.map((chart) => [
  chart.dataset.chart,
  chart.querySelectorAll(".points path, .hm image, .scatterlayer .js-line").length,
])
"""
_FOREIGN = """
() => [...document.querySelectorAll("*")].filter((element) =>
  element.matches("iframe, object, embed, base, img, video, audio, form, math, template, link, input, marquee")
  || (element.localName === "script" && element.parentElement !== document.body)
  || (element.localName === "a" && element.getAttribute("href") !== "#content")
  || (element.localName === "image" && !element.getAttribute("href").startsWith("data:image/png"))
  || [...element.attributes].some(({name}) => name.startsWith("on"))
).map((element) => element.outerHTML)
"""
_HOVER_ALL = """
async (charts) => {
  for (const chart of charts) {
    for (const [curve, trace] of chart.data.entries()) {
      for (let point = 0; point < Math.min(40, trace.x.length); point += 1) {
        try { Plotly.Fx.hover(chart, [{curveNumber: curve, pointNumber: point}]); } catch { /* lines have no labels */ }
      }
    }
    await new Promise(requestAnimationFrame);
  }
}
"""


@pytest.fixture
def open_report(chromium: Browser, tmp_path: Path) -> Iterator[OpenReport]:
    """Opens a report's file; at the end no window of it may have had a problem."""
    opened: list[Window] = []

    def make(found: Findings, *, size: tuple[int, int] = DESKTOP, dark: bool = False, change: str = "") -> Window:
        path = tmp_path / f"report-{len(opened)}.html"
        html = render(found, made_at_ms=MADE_AT_MS)
        if change == "without policy":
            html = html.replace('http-equiv="Content-Security-Policy"', 'name="none"')
        path.write_text(html.replace("</main>", f"{change}</main>") if change.startswith("<") else html)
        window = open_window(chromium, {"file://"}, size=size, dark=dark)
        opened.append(window)
        window.page.goto(path.as_uri())
        window.page.locator("html[data-ready]").wait_for()
        return window

    yield make
    for window in opened:
        window.context.close()
    assert [problem for window in opened for problem in window.unexpected()] == []


def test_every_chart_is_drawn_and_nothing_is_asked_of_anybody(open_report: OpenReport) -> None:
    window = open_report(samples.team())
    drawn = dict(window.page.locator("[data-chart]").evaluate_all(_DRAWN))
    assert set(drawn) == {"timeline", "heat", "latency", "agent-latency", "rates", "health"}
    assert all(count > 0 for count in drawn.values()), drawn
    assert drawn["timeline"] == samples.DAYS * 8
    assert window.page.locator(".net .node").count() == len(samples.NAMES)
    assert window.page.locator(".net .arrow").count() == len(samples.team().pairs)
    assert [url for url in window.requests if not url.startswith(("file:", "data:"))] == []
    assert len(window.requests) == 1


def test_the_numbers_stand_in_tables_beside_the_charts(open_report: OpenReport) -> None:
    page = open_report(samples.team()).page
    expect(page.get_by_role("heading", level=1)).to_have_text("How the agents work")
    headings = page.get_by_role("heading", level=2).all_inner_texts()
    assert headings == [
        "Activity",
        "Who answers whom",
        "Agents",
        "Topics",
        "Tasks and leases",
        "Hub health",
        "Delivery across machines",
        "Quality checks",
    ]
    expect(page.locator("#topics")).to_contain_text("Checkout is slow on phones")
    expect(page.locator("#checks")).to_contain_text("replay equals the tables")
    numbers = page.locator("#answers details").first
    numbers.locator("summary").click()
    expect(numbers.get_by_role("table", name="Who answers whom")).to_be_visible()


def test_the_theme_follows_the_system_until_one_is_chosen_and_the_choice_is_kept(open_report: OpenReport) -> None:
    window = open_report(samples.team(), dark=True)
    page = window.page

    def colours() -> tuple[str, str]:
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        label = page.locator("[data-chart=timeline] .xtick text").first
        return ground, label.evaluate("(text) => getComputedStyle(text).fill")

    dark = colours()
    page.get_by_role("button", name="Show in light colours").click()
    light = colours()
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    page.reload()
    page.locator("html[data-ready]").wait_for()
    assert colours() == light
    page.get_by_role("button", name="Show in dark colours").click()
    assert colours() == dark


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (DESKTOP, True), (PHONE, False)])
def test_axe_finds_nothing_serious_in_it(open_report: OpenReport, size: tuple[int, int], dark: bool) -> None:
    window = open_report(samples.team(), size=size, dark=dark)
    assert faults(window) == []


def test_nothing_is_wider_than_a_phone(open_report: OpenReport) -> None:
    page = open_report(samples.team(), size=PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]


def test_a_lake_in_which_nobody_spoke_has_a_report_too(open_report: OpenReport) -> None:
    window = open_report(Findings())
    expect(window.page.get_by_role("main")).to_contain_text("Nobody has said anything yet")
    assert faults(window) == []


@pytest.mark.parametrize("change", ["", "without policy"])
def test_nothing_that_an_agent_chose_runs(open_report: OpenReport, change: str) -> None:
    """The policy would stop it; without the policy there is nothing to stop."""
    window = open_report(samples.hostile(), change=change)
    page = window.page
    page.locator("[data-chart]").evaluate_all(_HOVER_ALL)
    page.locator("details").evaluate_all("(all) => all.forEach((each) => { each.open = true; })")
    assert page.evaluate(_FOREIGN) == []
    assert page.evaluate(f"window.{xss.MARKS}") is None
    expect(page.locator("#topics")).to_contain_text("<script>")


def test_control_a_text_that_got_into_the_page_as_code_is_stopped_by_the_policy(open_report: OpenReport) -> None:
    number = xss.PAYLOADS.index("<img src=x onerror=RUN>")
    text = xss.armed(number)
    window = open_report(samples.team(), change=text.replace("src=x", "src=data:,"))
    window.expect_problem("policy")
    window.expect_problem("Content Security Policy")
    assert window.page.evaluate(_FOREIGN) != []
    assert window.page.evaluate(f"window.{xss.MARKS}") is None
