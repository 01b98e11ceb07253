"""The page's model of a topic, under every order in which answers and events can overtake each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.browsers import open_window
from tests.browser.hubs import PageHub

WORLD = (Path(__file__).parent / "topic_world.js").read_text()
SEEDS = range(40)


@pytest.fixture(scope="module")
def lab(chromium: Browser, hub: PageHub) -> Iterator[Page]:
    """A window that can load the page's modules, without anybody logged in."""
    window = open_window(chromium, {hub.url})
    window.page.goto(f"{hub.url}/ui")
    yield window.page
    window.context.close()


def problems_of(lab: Page, *, broken: bool) -> dict[int, list[str]]:
    """What is wrong in the end, in each world where something is."""
    script = f"([seeds, broken]) => Promise.all(seeds.map((seed) => ({WORLD})([seed, broken])))"
    found = lab.evaluate(script, [list(SEEDS), broken])
    return {seed: problems for seed, problems in zip(SEEDS, found, strict=True) if problems}


def test_what_is_shown_is_a_true_stretch_of_the_topic_whatever_overtakes_what(lab: Page) -> None:
    assert problems_of(lab, broken=False) == {}


def test_a_lost_event_would_be_noticed(lab: Page) -> None:
    assert set(problems_of(lab, broken=True)) == set(SEEDS)
