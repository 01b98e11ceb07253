"""One Chromium for the tests of this folder, a real hub per module, and windows that are already logged in.

Playwright's blocking interface keeps an event loop running in the thread while it is open, so it ends with this
package: asynchronous tests of other packages may follow in the same process.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from bench.load.ports import lasting_port
from tests.browser.browsers import DESKTOP, TIMEOUT_MS, Window, find_chromium, open_window
from tests.browser.hubs import PageHub, Room

expect.set_options(timeout=TIMEOUT_MS)


class MakeHub(Protocol):
    """``make_hub()`` starts a hub in a workspace of its own; all of them end with the test."""

    def __call__(self, folder: Path | None = None, *flags: str) -> PageHub: ...


class OpenWindow(Protocol):
    """``open_window(hub, "#/status")``: a window that is logged in there, unless ``log_in`` is false."""

    def __call__(
        self,
        hub: PageHub,
        route: str = "",
        *,
        size: tuple[int, int] = DESKTOP,
        dark: bool = False,
        beside: Window | None = None,
        log_in: bool = True,
    ) -> Window: ...


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium. Without one CI fails; elsewhere the tests are skipped."""
    program = find_chromium()
    if program is None:
        reason = "no Chromium was found (Debian package chromium); scripts/setup --test installs it where it may"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    with sync_playwright() as playwright:
        # As root there is no sandbox of the browser's own; it only ever opens our page.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageHub]:
    """A hub that the tests of a module share; each works in a room of its own."""
    hub = PageHub(tmp_path_factory.mktemp("workspace"))
    hub.start()
    yield hub
    hub.end()


@pytest.fixture
def make_hub(tmp_path: Path) -> Iterator[MakeHub]:
    """Makes hubs that one test may kill, restart where they were, and fill."""
    made: list[PageHub] = []

    def make(folder: Path | None = None, *flags: str) -> PageHub:
        root = folder or tmp_path / f"workspace-{len(made)}"
        root.mkdir(exist_ok=True)
        made.append(PageHub(root))
        made[-1].start("--port", str(lasting_port()), *flags)
        return made[-1]

    yield make
    for hub in made:
        hub.end()


@pytest.fixture
def room(hub: PageHub) -> Room:
    """A channel and a topic of this test's own, at the module's hub."""
    return Room(hub)


@pytest.fixture(name="open_window")
def _open_window(chromium: Browser) -> Iterator[OpenWindow]:
    """Opens windows; at the end none of them may have had a problem."""
    opened: list[Window] = []

    def make(
        hub: PageHub,
        route: str = "",
        *,
        size: tuple[int, int] = DESKTOP,
        dark: bool = False,
        beside: Window | None = None,
        log_in: bool = True,
    ) -> Window:
        window = open_window(chromium, {hub.url}, size=size, dark=dark, beside=beside)
        opened.append(window)
        if log_in and beside is None:
            hub.log_in(window.context)
        if log_in or route:
            window.page.goto(f"{hub.url}/ui{route}")
        if log_in and beside is None:
            # Loaded is not yet ready: keys that are pressed before the app stands go nowhere.
            window.page.get_by_test_id("channel-list").wait_for(state="attached")
        return window

    yield make
    for context in {window.context for window in opened}:
        context.close()
    assert [problem for window in opened for problem in window.unexpected()] == []


@pytest.fixture
def window(hub: PageHub, open_window: OpenWindow) -> Window:
    """A window that is logged in at the module's hub."""
    return open_window(hub)
