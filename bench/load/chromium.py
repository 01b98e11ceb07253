"""A browser without a window, driven over a pipe: for the figures of the page, and for the picture that the demo takes.

Chromium's DevTools protocol on descriptors 3 and 4 opens no port that anybody else could use, and the browser ends by
itself when the pipe is closed, also if we are killed. Only what needs a real browser is done here, with nothing to
install but Chromium itself.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, Self

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CALL_SECONDS: Final = 30.0
"""For one answer, on a machine that is busy with other things."""
CLOSE_SECONDS: Final = 10.0
FLAGS: Final = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--password-store=basic",
)
_READ_BYTES: Final = 1 << 16
_FIRST_FREE: Final = 5
_STARTER: Final = """
import os, sys
for given, wanted in zip(sys.argv[1:3], (3, 4)):
    os.dup2(int(given), wanted)
    os.close(int(given))
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Puts the pipes where Chromium looks for them."""


class BrowserFailed(RuntimeError):
    """The browser did not start, refused a call, or did not answer in time."""


def find_chromium() -> str | None:
    """The program, or None where no browser of the family is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Chromium:
    """One browser with a profile of its own. Used by one thread."""

    def __init__(self, program: str, profile: Path) -> None:
        # As root the browser has no sandbox of its own; it only ever opens our page.
        flags = (*FLAGS, *(("--no-sandbox",) if os.geteuid() == 0 else ()), f"--user-data-dir={profile}")
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        requests, answers = _above(requests), _above(answers)
        starter = (sys.executable, "-ISc", _STARTER, str(requests), str(answers))
        try:
            self._process = subprocess.Popen(
                [*starter, program, *flags, "about:blank"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # What it leaves behind when it is killed goes with the profile.
                env={**os.environ, "TMPDIR": str(profile)},
                pass_fds=(requests, answers),
                start_new_session=True,
            )
        finally:
            os.close(requests)
            os.close(answers)
        self._number = 0
        self._rest = b""

    def call(self, method: str, params: dict[str, Any] | None = None, session: str | None = None) -> dict[str, Any]:
        """Calls a method of the protocol and returns its result; what the browser says unasked is passed over."""
        self._number += 1
        request: dict[str, Any] = {"id": self._number, "method": method, "params": params or {}}
        if session is not None:
            request["sessionId"] = session
        deadline = time.monotonic() + CALL_SECONDS
        try:
            os.write(self._requests, json.dumps(request).encode() + b"\0")
        except BrokenPipeError:
            raise BrowserFailed("the browser ended") from None
        while True:
            answer = json.loads(self._next_message(deadline, method))
            if answer.get("id") != self._number:
                continue
            if "error" in answer:
                raise BrowserFailed(f"{method}: {answer['error'].get('message')}")
            return answer["result"]

    def open_tab(self, width: int = 1280, height: int = 800) -> "Tab":
        """A page that shares no cookie and no cache with any other."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", {"url": "about:blank", "browserContextId": context})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        tab = Tab(self, context, session)
        tab.call("Page.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        tab.call("Emulation.setDeviceMetricsOverride", size)
        return tab

    def close(self) -> None:
        """Ends the browser and everything it started. May be called again."""
        for descriptor in (self._requests, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._requests = self._answers = -1
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_message(self, deadline: float, method: str) -> bytes:
        """The protocol's messages end with a zero byte."""
        while (end := self._rest.find(b"\0")) < 0:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise BrowserFailed(f"no answer to {method} within {CALL_SECONDS:g} seconds")
            data = os.read(self._answers, _READ_BYTES)
            if not data:
                raise BrowserFailed("the browser ended")
            self._rest += data
        message, self._rest = self._rest[:end], self._rest[end + 1 :]
        return message


def _above(descriptor: int) -> int:
    """The same pipe under a number that is not one of those it is to be moved to."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    os.close(descriptor)
    return moved


class Tab:
    """One page of the browser."""

    def __init__(self, browser: Chromium, context: str, session: str) -> None:
        self._browser = browser
        self._context = context
        self._session = session

    def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._browser.call(method, params, self._session)

    def open(self, url: str, *, ready: str) -> None:
        """Goes to an address and returns once the expression ``ready`` is true there."""
        failure = self.call("Page.navigate", {"url": url}).get("errorText")
        if failure:
            raise BrowserFailed(f"{url} cannot be opened: {failure}")
        self.wait_for(ready)

    def evaluate(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression, or of what its promise becomes."""
        params = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self.call("Runtime.evaluate", params)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserFailed(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Returns once a JavaScript expression is true, which the page looks at once per frame."""
        look = f"const look = () => {{ if ({condition}) done(); else requestAnimationFrame(look); }}; look();"
        self.evaluate(f"new Promise((done) => {{ {look} }})")

    def metrics(self) -> dict[str, float]:
        """What the page has cost so far: times in seconds since ``Performance.enable``, nodes, bytes of heap."""
        return {entry["name"]: entry["value"] for entry in self.call("Performance.getMetrics")["metrics"]}

    def screenshot(self, path: Path) -> None:
        """Saves what is in view as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", {"format": "png"})["data"]))

    def close(self) -> None:
        """Closes the page and forgets its cookies and its cache."""
        self._browser.call("Target.disposeBrowserContext", {"browserContextId": self._context})
