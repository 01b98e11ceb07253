"""Takes the pictures in docs/images again: ``.venv/bin/python -m scripts.screenshots [NAME ...]``.

A story is told in a temporary workspace, its hub is started, and each view is photographed in Debian's Chromium; then
the pipeline's report of a team that worked for three weeks.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright

from parley.pipeline.report.page import render
from scripts.story import SETTINGS, Told, tell
from tests.browser.browsers import PHONE, Window, find_chromium, open_window
from tests.browser.hubs import PageHub
from tests.pipeline.report import samples

IMAGES = Path(__file__).parent.parent / "docs" / "images"
SIZE = (1200, 660)
REPORT_SIZE = (1200, 1130)
NETWORK_WIDTH = 960
BYTES_MAX = 160_000
ROUNDS = 40
PACE_MS = 1_000


class Shot(NamedTuple):
    """One picture: where it is taken, what must be there first, and what is done before."""

    name: str
    route: str
    ready: str
    act: Callable[["Studio"], None] | None = None
    size: tuple[int, int] = SIZE
    dark: bool = False


class Studio:
    """One browser window before one hub."""

    def __init__(self, browser: Browser, hub: PageHub, told: Told) -> None:
        self.hub = hub
        self.told = told
        self.window = open_window(browser, {hub.url})
        self.page = self.window.page
        hub.log_in(self.window.context)
        self.page.goto(f"{hub.url}/ui")
        self.window.call_me("ada")
        hub.client.re_enrich(0)  # the story was told while no plugin ran
        hub.client.send_message(told.news_topic_id, "Backup done, 4.1 GB, restored and compared.", "builder")

    def shots(self) -> tuple[Shot, ...]:
        topic = f"#/t/{self.told.topic_id}"
        linked = "article [role=button]"
        return (
            Shot("topic", topic, linked),
            Shot("dark", topic, linked, dark=True),
            Shot("phone", topic, linked, size=PHONE),
            Shot("search", "#/search?q=fonts", "a.hit mark"),
            Shot("events", f"#/events?topic={self.told.topic_id}", "li.event", Studio.open_an_event),
            Shot("palette", topic, linked, Studio.open_palette),
            Shot("status", "#/status", "tr[data-plugin]", Studio.work_for_a_while),
            Shot("work", "#/work", "h1", Studio.divide_work),
        )

    def take(self, shot: Shot) -> None:
        width, height = shot.size
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme="dark" if shot.dark else "light")
        self.page.goto(f"{self.hub.url}/ui{shot.route}")
        self.page.reload()  # what was opened for another size stays closed
        self.page.locator(shot.ready).first.wait_for()
        # A click puts away the mark that shows the keyboard's focus.
        self.page.locator("h1").first.click(force=True)
        if shot.act is not None:
            shot.act(self)
        path = IMAGES / f"{shot.name}.png"
        self.page.screenshot(path=path, animations="disabled", caret="hide")
        accept(path, self.window)

    def open_an_event(self) -> None:
        self.page.locator("button.event-toggle").nth(1).click()

    def open_palette(self) -> None:
        self.page.keyboard.press("Control+k")
        self.page.get_by_role("combobox").fill("che")

    def work_for_a_while(self) -> None:
        """So that the charts have something to show."""
        for number in range(ROUNDS):
            for _ in range(1 + number * 7 % 5):
                text = f"Step {number} is in src/backup.py:{number + 1}."
                self.hub.client.send_message(self.told.news_topic_id, text, "builder")
            self.page.wait_for_timeout(PACE_MS)

    def divide_work(self) -> None:
        """Tasks in every state, and agents that hold some of them."""
        client, channel = self.hub.client, self.told.channel_id
        agents = (("builder", "codex", "gpt-5"), ("reviewer", "claude-code", "opus"), ("planner", "gemini", None))
        for name, program, model in agents:
            client.register_agent(name, program=program, model=model, session=f"story {name}")
        titles = (
            "Profile the page on a throttled connection",
            "Load fonts without blocking the first paint",
            "Defer cart.js behind checkout_fast",
            "Measure again on three phones",
            "Write the release note",
        )
        tasks = [client.create_task(title, channel_id=channel, created_by="planner").task for title in titles]
        done = client.claim_task(tasks[0].id, "builder").task
        client.complete_task(done.id, done.generation, "Fonts and cart.js block; trace attached.", "builder")
        client.claim_task(tasks[1].id, "builder", ttl_seconds=1500)
        client.claim_task(tasks[2].id, "reviewer", ttl_seconds=2700)
        client.acquire_lease(["src/checkout/head.py", "static/fonts/**"], "builder", reason=titles[1], ttl_seconds=1500)
        client.acquire_lease(["static/cart.js"], "reviewer", reason=titles[2], ttl_seconds=2700)
        self.page.locator(f'[data-task-id="{tasks[-1].id}"]').wait_for()
        self.page.locator('[data-agent="planner"]').wait_for()
        self.page.wait_for_timeout(PACE_MS)


def take_report(browser: Browser, folder: Path) -> None:
    """The pipeline's report: its top, and who answers whom."""
    file = folder / "report.html"
    file.write_text(render(samples.team(), made_at_ms=samples.START_MS + samples.DAYS * samples.DAY_MS))
    window = open_window(browser, {"file://"}, size=REPORT_SIZE)
    window.page.goto(file.as_uri())
    window.page.locator("html[data-ready]").wait_for()
    top, answers = IMAGES / "report.png", IMAGES / "report-answers.png"
    window.page.screenshot(path=top, animations="disabled")
    accept(top, window)
    window.page.set_viewport_size({"width": NETWORK_WIDTH, "height": REPORT_SIZE[1]})
    window.page.emulate_media(color_scheme="dark")
    window.page.locator("#answers figure").first.screenshot(path=answers, animations="disabled")
    accept(answers, window)


def accept(path: Path, window: Window) -> None:
    """A picture is small enough for a repository, and nothing went wrong while it was taken."""
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes")
    assert size <= BYTES_MAX, path
    assert window.unexpected() == [], window.unexpected()


def main() -> int:
    program = find_chromium()
    if program is None:
        print("screenshots: Chromium is needed (scripts/setup --test)", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="parley-pictures-") as folder:
        workspace = Path(folder) / "shop"
        workspace.mkdir()
        (workspace / "parley.toml").write_text(SETTINGS)
        told = asyncio.run(tell(workspace))
        hub = PageHub(workspace)
        hub.start()
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
                studio = Studio(browser, hub, told)
                wanted = set(sys.argv[1:])
                for shot in studio.shots():
                    if not wanted or shot.name in wanted:
                        studio.take(shot)
                if not wanted or "report" in wanted:
                    take_report(browser, Path(folder))
                browser.close()
        finally:
            hub.end()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
