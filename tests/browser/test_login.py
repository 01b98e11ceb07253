"""Logging in: the one-time link, the end of a session, and hubs that share a browser."""

import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.broker.test_server import certificate
from tests.browser.browsers import Window
from tests.browser.conftest import MakeHub, OpenWindow
from tests.browser.hubs import PageHub, Room
from tests.browser.tls_proxy import TlsProxy

NO_SESSION = "401"
"""A browser logs every refused request as an error; these are the ones that the tests are about."""


def is_logged_in(window: Window) -> None:
    expect(window.sidebar).to_be_visible()


def is_asked_to_log_in(window: Window, title: str = "Log in to Parley") -> None:
    login = window.page.get_by_test_id("login")
    expect(login.get_by_role("heading", name=title)).to_be_visible()
    expect(login.get_by_text("parley ui", exact=True)).to_be_visible()


def test_the_link_that_the_command_prints_logs_in(hub: PageHub, open_window: OpenWindow) -> None:
    command = [sys.executable, "-m", "parley", "ui", "--print-url", "--workspace", str(hub.root)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    window = open_window(hub, log_in=False)
    window.page.goto(printed.stdout.strip())
    is_logged_in(window)
    assert "code" not in window.page.url
    window.page.reload()
    is_logged_in(window)


def test_a_link_works_once(hub: PageHub, open_window: OpenWindow) -> None:
    link = hub.link()
    first, second = open_window(hub, log_in=False), open_window(hub, log_in=False)
    first.page.goto(link)
    is_logged_in(first)
    second.expect_problem(NO_SESSION)
    second.page.goto(link)
    is_asked_to_log_in(second, "This link did not work")
    again = open_window(hub, log_in=False, beside=first)
    again.expect_problem(NO_SESSION)
    again.page.goto(link)
    is_logged_in(again)


def test_without_a_session_the_page_shows_nothing_but_how_to_get_one(hub: PageHub, open_window: OpenWindow) -> None:
    room = Room(hub)
    window = open_window(hub, f"#/t/{room.topic_id}", log_in=False)
    window.expect_problem(NO_SESSION)
    is_asked_to_log_in(window)
    assert room.title not in window.page.content()


def test_a_session_does_not_reach_scripts_and_ends_with_the_log_out(hub: PageHub, open_window: OpenWindow) -> None:
    window = open_window(hub)
    second = open_window(hub, beside=window)
    is_logged_in(second)
    (cookie,) = window.context.cookies()
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
    assert window.page.evaluate("document.cookie") == ""
    assert (
        window.page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})").find(cookie.get("value", "")) == -1
    )

    window.expect_problem(NO_SESSION)
    second.expect_problem(NO_SESSION)
    window.page.keyboard.press("Control+k")
    window.page.get_by_role("combobox").fill("log out")
    window.page.keyboard.press("Enter")
    is_asked_to_log_in(window)
    is_asked_to_log_in(second)
    window.page.goto(hub.link())
    is_logged_in(window)


def test_two_hubs_side_by_side_in_one_browser(make_hub: MakeHub, open_window: OpenWindow) -> None:
    here, there = make_hub(), make_hub()
    rooms = [Room(here), Room(there)]
    first = open_window(here)
    second = open_window(there, beside=first)
    second.expect_problem(NO_SESSION)
    is_asked_to_log_in(second)
    second.page.goto(there.link())
    for window, own, other in ((first, rooms[0], rooms[1]), (second, rooms[1], rooms[0])):
        is_logged_in(window)
        window.page.reload()
        expect(window.sidebar.get_by_role("link", name=own.title)).to_be_visible()
        expect(window.page.get_by_text(other.title)).to_have_count(0)
    for window, room in zip((first, second), rooms, strict=True):
        window.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
        message_id = room.post(f"live in {room.title}")
        expect(window.message(message_id)).to_be_visible()


def test_a_trusted_name_shows_the_page_through_a_proxy_that_speaks_https(
    make_hub: MakeHub, chromium: Browser, tmp_path: Path
) -> None:
    """Logged in, live and writing, under a name and a port that are not the hub's."""
    cert, key = certificate(tmp_path)
    with TlsProxy(cert, key) as proxy:
        folder = tmp_path / "shop"
        folder.mkdir()
        (folder / "parley.toml").write_text(f'[hub]\ntrusted_hosts = ["localhost:{proxy.port}"]\n')
        hub = make_hub(folder)
        proxy.target = hub.server.port
        room = Room(hub)
        context = chromium.new_context(ignore_https_errors=True)
        try:
            page = context.new_page()
            code = hub.link().partition("#code=")[2]
            page.goto(f"https://localhost:{proxy.port}/ui#code={code}")
            expect(page.get_by_role("navigation", name="Channels and topics")).to_be_visible()
            page.goto(f"https://localhost:{proxy.port}/ui#/t/{room.topic_id}")
            said = room.post("said while the page is open")
            expect(page.locator(f'article[data-message-id="{said}"]')).to_be_visible()
        finally:
            context.close()
