"""Chromium, and windows of it that keep a record of everything that must not happen in them.

A window belongs to one test. Whatever the page logs as an error, throws, is refused by its policy, asks another host
for, opens or pops up is a problem, and a window with a problem fails its test, unless the test said beforehand that it
provokes just that.
"""

import re
import shutil
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Locator, Page, Request, WebSocket

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
"""Debian's is the first; any other of the family will do."""
TIMEOUT_MS = 45_000
"""For each single thing that a test waits for, on a machine that is busy with other tests."""
UNREACHABLE = r"net::ERR_|WebSocket|status of 503"
"""What a browser logs when nobody answers, or a hub that is stopping; there is no way to keep it from doing so."""
DESKTOP = (1280, 800)
PHONE = (390, 844)
_REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


def find_chromium() -> str | None:
    """The browser's program, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Window:
    """A page in a profile of its own, or of the window it was opened from."""

    context: BrowserContext
    page: Page
    origins: set[str]
    """Whom the page may speak to."""
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _expected: list[re.Pattern[str]] = field(default_factory=list)

    def expect_problem(self, pattern: str) -> None:
        """From here on, what matches this is what the test is about."""
        self._expected.append(re.compile(pattern))

    def unexpected(self) -> list[str]:
        """What happened and must not have."""
        return [each for each in self.problems if not any(pattern.search(each) for pattern in self._expected)]

    @property
    def sidebar(self) -> Locator:
        return self.page.get_by_role("navigation", name="Channels and topics")

    @property
    def timeline(self) -> Locator:
        """The messages of the topic that is open."""
        return self.page.get_by_test_id("timeline")

    @property
    def attachments(self) -> Locator:
        """The cards of the topic that is open."""
        return self.page.get_by_role("complementary", name="Attachments").get_by_role("listitem")

    def message(self, message_id: str) -> Locator:
        """A message, in whatever view it is shown."""
        return self.page.locator(f'article[data-message-id="{message_id}"]')

    def message_ids(self) -> list[str]:
        """The messages in the page, from top to bottom."""
        return self.page.locator("article[data-message-id]").evaluate_all(
            "articles => articles.map((article) => article.dataset.messageId)"
        )

    def call_me(self, name: str) -> None:
        """Tells the page the name of whoever sits before it."""
        self.sidebar.get_by_role("button", name="Choose your name").click()
        dialog = self.page.get_by_role("dialog", name="Your name")
        dialog.get_by_role("textbox", name="Name").fill(name)
        dialog.get_by_role("button", name="Save").click()
        dialog.wait_for(state="detached")

    def choose(self, message_id: str, action: str) -> None:
        """Picks from a message's menu."""
        message = self.message(message_id)
        message.hover()
        message.get_by_role("button", name="More actions").click()
        self.page.get_by_role("menuitem", name=action).click()

    def wait_until(self, script: str, argument: Any = None) -> None:
        """Waits until a JavaScript function of ``argument`` is true."""
        self.page.wait_for_function(script, arg=argument)

    def watch(self) -> None:
        """Records from now on; called once per window."""
        page = self.page
        page.set_default_timeout(TIMEOUT_MS)
        page.add_init_script(_REPORT_VIOLATIONS)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"thrown: {error}\n{error.stack or ''}"))
        page.on("dialog", self._on_dialog)
        page.on("popup", lambda popup: self.problems.append(f"popup: {popup.url}"))
        page.on("request", self._on_request)
        page.on("websocket", self._on_websocket)
        page.on("crash", lambda _: self.problems.append("the page crashed"))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.problems.append(f"console {message.type}: {message.text} ({message.location.get('url', '')})")

    def _on_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        self.requests.append(request.url)
        self._check_place(request.url)

    def _on_websocket(self, socket: WebSocket) -> None:
        self._check_place(socket.url)

    def _check_place(self, url: str) -> None:
        place = urlsplit(url)
        scheme = {"ws": "http", "wss": "https"}.get(place.scheme, place.scheme)
        if f"{scheme}://{place.netloc}" not in self.origins:
            self.problems.append(f"request to another place: {url}")


def open_window(
    browser: Browser,
    origins: set[str],
    *,
    size: tuple[int, int] = DESKTOP,
    dark: bool = False,
    beside: Window | None = None,
) -> Window:
    """A new window; ``beside`` shares the cookies of another one, as a second tab does."""
    if beside is not None:
        context = beside.context
    else:
        width, height = size
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            service_workers="block",
        )
    window = Window(context, context.new_page(), origins)
    window.watch()
    return window
