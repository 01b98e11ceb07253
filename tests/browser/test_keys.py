"""Messages by keyboard: from one to the next, and everything that can be done with the one that has the focus."""

import re

from playwright.sync_api import expect

from tests.browser.browsers import Window
from tests.browser.hubs import Room


def open_with_messages(window: Window, room: Room) -> list[str]:
    """A topic with three messages, shown to a person who has a name."""
    ids = [room.post(f"number {number}") for number in range(3)]
    window.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
    expect(window.message(ids[-1])).to_be_in_viewport()
    window.timeline.focus()
    return ids


def test_j_and_k_go_from_message_to_message(window: Window, room: Room) -> None:
    ids = open_with_messages(window, room)
    keyboard = window.page.keyboard
    keyboard.press("k")
    expect(window.message(ids[2])).to_be_focused()
    keyboard.press("k")
    keyboard.press("k")
    expect(window.message(ids[0])).to_be_focused()
    keyboard.press("j")
    expect(window.message(ids[1])).to_be_focused()


def test_keys_act_on_the_message_that_has_the_focus(window: Window, room: Room) -> None:
    ids = open_with_messages(window, room)
    keyboard, page = window.page.keyboard, window.page
    window.message(ids[1]).focus()
    keyboard.press("r")
    expect(page.get_by_role("textbox", name=re.compile("message", re.IGNORECASE))).to_be_focused()
    window.message(ids[1]).focus()
    keyboard.press("e")
    editor = window.message(ids[1]).get_by_role("textbox")
    expect(editor).to_have_value("number 1")
    expect(editor).to_be_focused()
    keyboard.press("Escape")
    expect(window.message(ids[1])).to_be_focused()
    keyboard.press("m")
    expect(page.get_by_role("dialog")).to_contain_text("Move")
    keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(window.message(ids[1])).to_be_focused()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    keyboard.press("y")
    window.wait_until(
        "async (id) => (await navigator.clipboard.readText()).endsWith(`/m/${id}`)",
        ids[1],
    )


def test_delete_asks_first(window: Window, room: Room) -> None:
    ids = open_with_messages(window, room)
    window.call_me("ada")
    window.message(ids[1]).focus()
    window.page.keyboard.press("Delete")
    dialog = window.page.get_by_role("dialog", name="Delete this message?")
    expect(dialog).to_contain_text("number 1")
    dialog.get_by_role("button", name="Delete").click()
    expect(window.message(ids[1])).to_contain_text("Deleted by")
    assert room.message(ids[1]).deleted_by == "ada"
    assert room.message(ids[0]).deleted_by is None


def test_a_message_without_the_focus_is_safe(window: Window, room: Room) -> None:
    ids = open_with_messages(window, room)
    for keys in ("Delete", "m", "e"):
        window.page.keyboard.press(keys)
    window.page.keyboard.press("?")
    expect(window.page.get_by_role("dialog")).to_have_count(1)
    expect(window.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert room.ids() == ids
