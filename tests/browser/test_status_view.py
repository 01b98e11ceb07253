"""The status view: what is wrong in words, what happens as numbers and lines, and how the plugins are."""

import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.browsers import UNREACHABLE, Window
from tests.browser.conftest import MakeHub, OpenWindow
from tests.browser.hubs import PageHub, Room


def tile(window: Window, title: str) -> Locator:
    return window.page.locator(f'[data-tile="{title}"]')


def open_status(window: Window, hub: PageHub) -> None:
    window.page.goto(f"{hub.url}/ui#/status")
    expect(window.page.locator(".health")).to_contain_text("All is well")


def test_a_healthy_hub_shows_its_sizes(window: Window, hub: PageHub) -> None:
    open_status(window, hub)
    for title in ("Database", "Write-ahead log", "Disk free", "Memory"):
        expect(tile(window, title).locator(".tile-value")).to_have_text(re.compile(r"^\d[\d.,]* (B|KB|MB|GB|TB)$"))
    expect(tile(window, "Feeds open").locator(".tile-value")).not_to_have_text("0")
    expect(window.page.get_by_text("No plugins.")).to_be_visible()


def test_every_chart_says_in_words_what_it_shows(window: Window, hub: PageHub) -> None:
    open_status(window, hub)
    expect(window.page.get_by_role("img", name=re.compile("^Database: now .*, lowest .*, highest "))).to_be_visible()
    names = window.page.locator("main svg[role=img]").evaluate_all("all => all.map((one) => one.ariaLabel)")
    assert len(names) == 12
    assert all(": " in name for name in names)


def test_rates_and_times_follow_what_happens(window: Window, room: Room) -> None:
    open_status(window, room.hub)
    expect(tile(window, "Events per second").locator(".tile-value")).to_have_text("0.0")
    for number in range(30):
        room.post(f"busy {number}")
    expect(tile(window, "Events per second").locator(".tile-value")).not_to_have_text("0.0")
    for title in ("Request time, median", "Request time, 99 %", "Commit time, 99 %"):
        expect(tile(window, title).locator("path.spark-line")).to_have_attribute("d", re.compile("^M"))


def test_trouble_is_told_in_words(make_hub: MakeHub, open_window: OpenWindow, tmp_path: Path) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "parley.toml").write_text("[trouble]\ndisk_free_bytes_min = 9_000_000_000_000_000\n")
    window = open_window(make_hub(folder), "#/status")
    expect(window.page.locator(".health")).to_contain_text("are free on the disk")


def test_it_asks_only_while_it_is_shown(window: Window, hub: PageHub) -> None:
    def asked() -> int:
        return sum(url.endswith("/metrics") for url in window.requests)

    window.page.clock.install()
    window.page.reload()
    open_status(window, hub)
    before = asked()
    with window.page.expect_response("**/metrics"):
        window.page.clock.run_for(3000)
    assert asked() > before
    window.page.goto(f"{hub.url}/ui#/search")
    expect(window.page.get_by_role("searchbox", name="Search messages")).to_be_visible()
    before = asked()
    window.page.clock.run_for(30_000)
    assert asked() == before


def test_a_hub_that_is_gone_is_reported_and_found_again(make_hub: MakeHub, open_window: OpenWindow) -> None:
    hub = make_hub()
    window = open_window(hub)
    open_status(window, hub)
    window.expect_problem(UNREACHABLE)
    port = hub.server.port
    hub.stop()
    alert = window.page.locator("main").get_by_role("alert")
    expect(alert).to_contain_text("did not answer")
    hub.start("--port", str(port))
    expect(alert).to_have_count(0)
    expect(tile(window, "Database").locator(".tile-value")).not_to_have_text("–")


PLUGINS = """
[[plugins]]
name = "links"
type = "linkifier"

[[plugins]]
name = "lost"
type = "linkifier"
module = "plugins/lost.py"

[[plugins]]
name = "urls"
type = "extractor"
enabled = false
"""


def test_plugins_are_shown_with_their_state_and_can_run_again(
    make_hub: MakeHub, open_window: OpenWindow, tmp_path: Path
) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "parley.toml").write_text(PLUGINS)
    hub = make_hub(folder)
    room = Room(hub)
    for number in range(3):
        room.post(f"look at src/app.py:{number + 1}")
    window = open_window(hub, "#/status")
    states = window.page.locator("tr[data-plugin] .state")
    expect(states).to_have_text(["Ready", "Broken", "Off"])
    expect(window.page.locator(".health")).to_contain_text("Plugin lost: ")
    window.page.set_viewport_size({"width": 320, "height": 640})
    assert window.page.evaluate("document.documentElement.scrollWidth") == 320
    runs = window.page.locator('tr[data-plugin="links"] td:nth-of-type(5)')
    expect(runs).to_have_text("3")
    window.page.get_by_role("button", name="Run links again").click()
    dialog = window.page.get_by_role("dialog", name="Run links again")
    dialog.get_by_label("After event").fill("nonsense")
    dialog.get_by_role("button", name="Queue").click()
    expect(dialog.get_by_role("alert")).to_contain_text("whole number")
    dialog.get_by_label("After event").fill("0")
    dialog.get_by_role("button", name="Queue").click()
    expect(dialog).to_have_count(0)
    expect(window.page.get_by_test_id("announcer")).to_contain_text("3 jobs queued")
    expect(runs).to_have_text("6")


def test_a_plugin_that_fails_is_a_problem_in_words(window: Window) -> None:
    script = """async (plugins) => {
      const { problemsOf } = await import("/ui/assets/js/status/plugins.js");
      return problemsOf(plugins);
    }"""
    well = {"name": "links", "state": "ready", "problem": None, "failed": 0, "last_error": None}
    plugins = [
        well,
        well | {"name": "lost", "state": "broken", "problem": "No such file"},
        well | {"name": "shaky", "state": "paused", "last_error": "ValueError: no"},
        well | {"name": "picky", "failed": 2, "last_error": "KeyError: x"},
        well | {"name": "picked", "failed": 1},
    ]
    assert window.page.evaluate(script, plugins) == [
        "Plugin lost: No such file",
        "Plugin shaky: it fails again and again, so it rests before it is tried again",
        "Plugin picky: it failed for 2 messages",
        "Plugin picked: it failed for 1 message",
    ]
