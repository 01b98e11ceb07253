"""The driver of the browser: what a page says comes back, what goes wrong is told, and nothing is left running."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.load.chromium import BrowserFailed, Chromium, Tab, find_chromium

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = find_chromium()
    if program is None:
        reason = "no Chromium was found (Debian package chromium); scripts/setup --test installs it where it may"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    with Chromium(program, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def tab(browser: Chromium) -> Iterator[Tab]:
    tab = browser.open_tab(width=400, height=300)
    tab.open("data:text/html,<title>here</title><p>text</p>", ready="document.querySelector('p') !== null")
    yield tab
    tab.close()


def test_values_and_promises_come_back(tab: Tab) -> None:
    assert tab.evaluate("document.title") == "here"
    assert tab.evaluate("new Promise((done) => setTimeout(() => done({ width: innerWidth }), 1))") == {"width": 400}


def test_waiting_ends_when_the_page_has_changed(tab: Tab) -> None:
    tab.evaluate("void setTimeout(() => document.querySelector('p').replaceWith('gone'), 30)")
    tab.wait_for("document.querySelector('p') === null")
    assert tab.evaluate("document.body.textContent") == "gone"


def test_what_a_page_throws_and_an_address_that_is_not_there_are_told(tab: Tab) -> None:
    with pytest.raises(BrowserFailed, match="no luck"):
        tab.evaluate("(() => { throw new Error('no luck'); })()")
    with pytest.raises(BrowserFailed, match="cannot be opened"):
        tab.open("http://127.0.0.1:1/", ready="true")


def test_costs_are_counted_from_when_they_are_asked_for(tab: Tab) -> None:
    tab.call("Performance.enable")
    before = tab.metrics()
    tab.evaluate("for (let left = 100; left > 0; left -= 1) document.body.append(document.createElement('i'))")
    after = tab.metrics()
    assert after["ThreadTime"] > before["ThreadTime"]
    assert after["Nodes"] >= before["Nodes"] + 100


def test_a_picture_is_saved(tab: Tab, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    tab.screenshot(picture)
    assert picture.read_bytes().startswith(PNG)


def test_a_tab_does_not_know_the_cookies_of_another(browser: Chromium, tab: Tab) -> None:
    set_cookie = {"name": "who", "value": "ada", "url": "http://127.0.0.1/"}
    asked = {"urls": ["http://127.0.0.1/"]}
    tab.call("Network.setCookie", set_cookie)
    assert len(tab.call("Network.getCookies", asked)["cookies"]) == 1
    other = browser.open_tab()
    assert other.call("Network.getCookies", asked)["cookies"] == []
    other.close()


def test_a_browser_that_does_not_start_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BrowserFailed, match="ended"), Chromium("/bin/true", tmp_path) as browser:
        browser.open_tab()
