"""Light and dark, wide and narrow."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.browsers import PHONE, Window
from tests.browser.conftest import OpenWindow
from tests.browser.hubs import PageHub, Room

_BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
_WIDTHS = "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]"


def is_dark(window: Window) -> bool:
    red, green, blue = map(int, re.findall(r"\d+", window.page.evaluate(_BACKGROUND))[:3])
    return red + green + blue < 3 * 128


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_theme_follows_the_system_until_somebody_chooses(hub: PageHub, open_window: OpenWindow, dark: bool) -> None:
    window = open_window(hub, dark=dark)
    expect(window.sidebar).to_be_visible()
    assert is_dark(window) is dark
    window.page.get_by_role("button", name=f"Use the {'light' if dark else 'dark'} theme").click()
    assert is_dark(window) is not dark
    window.page.reload()
    expect(window.sidebar).to_be_visible()
    assert is_dark(window) is not dark
    window.page.get_by_role("button", name=f"Use the {'dark' if dark else 'light'} theme").click()
    assert is_dark(window) is dark
    window.page.emulate_media(color_scheme="light" if dark else "dark")
    assert is_dark(window) is not dark


def test_on_a_phone_the_sidebar_is_a_drawer(hub: PageHub, room: Room, open_window: OpenWindow) -> None:
    message_id = room.post("read on the way")
    window = open_window(hub, size=PHONE)
    opener = window.page.get_by_role("button", name="Show channels and topics")
    expect(opener).to_be_visible()
    expect(window.sidebar).not_to_be_in_viewport()
    opener.click()
    expect(window.sidebar).to_be_in_viewport()
    window.page.keyboard.press("Escape")
    expect(window.sidebar).not_to_be_in_viewport()
    expect(opener).to_be_focused()
    opener.click()
    window.sidebar.get_by_role("link", name=room.title).click()
    expect(window.sidebar).not_to_be_in_viewport()
    expect(window.message(message_id)).to_be_in_viewport()
    expect(window.page.get_by_role("form", name="New message")).to_be_in_viewport()


def test_on_a_phone_nothing_reaches_beyond_the_screen(hub: PageHub, room: Room, open_window: OpenWindow) -> None:
    long = "x" * 300
    room.post(
        f"{long}\n\n```\n{long}\n```\n\n| {long} | b |\n|---|---|\n| 1 | 2 |\n\nhttps://example.com/{long}", long[:200]
    )
    room.client.add_attachment(room.topic_id, "note", {long: long}, key=long[:200])
    window = open_window(hub, size=PHONE)
    for route, sign in (
        (f"#/t/{room.topic_id}", "article"),
        ("#/", "main li"),
        (f"#/c/{room.channel_id}", "main li"),
        ("#/search?q=example", "a.hit"),
        (f"#/events?channel={room.channel_id}", "li.event"),
        ("#/status", "main h1"),
    ):
        window.page.goto(f"{hub.url}/ui{route}")
        expect(window.page.locator(sign).first).to_be_visible()
        content, screen = window.page.evaluate(_WIDTHS)
        assert content <= screen, route


def test_the_sidebar_can_be_put_away(window: Window) -> None:
    window.sidebar.get_by_role("button", name="Hide the sidebar").click()
    expect(window.sidebar).not_to_be_in_viewport()
    window.page.reload()
    window.page.get_by_role("button", name="Show channels and topics").click()
    expect(window.sidebar).to_be_in_viewport()
