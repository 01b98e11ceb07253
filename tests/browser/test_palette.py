"""Commands by name and by key: everything can be reached without a mouse, and nothing fires while somebody types."""

import re

from playwright.sync_api import Locator, expect

from tests.browser.browsers import Window
from tests.browser.hubs import PageHub, Room

HOME = re.compile(r"/ui(#/)?$")


def palette(window: Window) -> Locator:
    return window.page.get_by_role("dialog", name="Command palette")


def open_palette(window: Window, typed: str = "") -> Locator:
    """Opened by its keys, with some letters typed; its options."""
    window.page.keyboard.press("Control+k")
    expect(palette(window).get_by_role("combobox")).to_be_focused()
    window.page.keyboard.type(typed)
    return palette(window).get_by_role("option")


def test_a_topic_is_found_by_a_few_letters(window: Window, room: Room) -> None:
    topic_id = room.topic("Xylophone rehearsal")
    options = open_palette(window, "xylreh")
    expect(options.first).to_contain_text("Xylophone rehearsal")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(options.first.locator("mark")).to_have_text(["Xyl", "reh"])
    window.page.keyboard.press("Enter")
    expect(window.page).to_have_url(re.compile(rf"#/t/{topic_id}$"))
    expect(palette(window)).to_have_count(0)


def test_channels_and_commands_are_found_too(window: Window, room: Room) -> None:
    options = open_palette(window, room.name)
    expect(options.first).to_contain_text(room.name)
    window.page.get_by_role("combobox").fill("go status")
    expect(options.first).to_contain_text("Go to status")
    window.page.keyboard.press("Enter")
    expect(window.page).to_have_url(re.compile("#/status$"))


def test_what_was_typed_can_be_searched_for(window: Window, room: Room) -> None:
    room.post("a quagmire of puddles")
    options = open_palette(window, "quagmire puddles")
    expect(options).to_have_count(1)
    window.page.keyboard.press("Enter")
    expect(window.page).to_have_url(re.compile(r"#/search\?q=quagmire\+puddles$"))
    expect(window.page.locator("a.hit")).to_have_count(1)


def test_the_id_of_a_message_leads_to_it(window: Window, room: Room) -> None:
    message_id = room.post("here I am")
    options = open_palette(window, message_id)
    options.filter(has_text="Go to message").click()
    expect(window.message(message_id)).to_be_in_viewport()


def test_arrows_go_round_and_the_field_names_the_choice(window: Window, room: Room) -> None:
    for number in range(3):
        room.topic(f"Kumquat {number}")
    options = open_palette(window, "kumquat")
    expect(options.filter(has_text=re.compile(r"Kumquat \d"))).to_have_count(3)
    field = palette(window).get_by_role("combobox")
    window.page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    expect(field).to_have_attribute("aria-activedescendant", options.nth(1).get_attribute("id") or "")
    window.page.keyboard.press("ArrowUp")
    window.page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    expect(palette(window).locator("[aria-selected=true]")).to_have_count(1)


def test_escape_gives_the_focus_back(window: Window, hub: PageHub) -> None:
    window.page.goto(f"{hub.url}/ui#/search")
    field = window.page.get_by_role("searchbox", name="Search messages")
    field.click()
    open_palette(window)
    window.page.keyboard.press("Escape")
    expect(palette(window)).to_have_count(0)
    expect(field).to_be_focused()


def test_keys_lead_to_places(window: Window, hub: PageHub) -> None:
    for keys, place in (("ge", "#/events"), ("gs", "#/status"), ("/", "#/search"), ("gh", "(#/)?")):
        window.page.locator("main").focus()
        window.page.keyboard.type(keys)
        expect(window.page).to_have_url(re.compile(rf"/ui{place}$"))


def test_keys_do_nothing_while_somebody_types(window: Window, hub: PageHub) -> None:
    window.page.goto(f"{hub.url}/ui#/search")
    field = window.page.get_by_role("searchbox", name="Search messages")
    field.click()
    window.page.keyboard.type("gs ge ? / j k")
    expect(field).to_have_value("gs ge ? / j k")
    expect(window.page).to_have_url(re.compile("#/search"))
    expect(window.page.get_by_role("dialog")).to_have_count(0)


def test_keys_with_other_modifiers_are_left_to_the_browser(window: Window) -> None:
    window.page.locator("main").focus()
    for keys in ("Control+g", "s", "Alt+g", "e", "Meta+/"):
        window.page.keyboard.press(keys)
    window.page.keyboard.press("?")
    expect(window.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    expect(window.page).to_have_url(HOME)


def test_the_list_of_shortcuts_is_complete_and_nothing_fires_behind_it(window: Window) -> None:
    window.page.locator("main").focus()
    window.page.keyboard.press("?")
    shortcuts = window.page.get_by_role("dialog", name="Keyboard shortcuts")
    for title in ("Go to status", "Search messages", "Open the command palette", "Show keyboard shortcuts"):
        expect(shortcuts.get_by_text(title)).to_be_visible()
    window.page.keyboard.type("gs")
    expect(window.page).to_have_url(HOME)
    window.page.keyboard.press("Escape")
    expect(shortcuts).to_have_count(0)


def test_a_place_is_chosen_by_two_keys(window: Window, room: Room) -> None:
    window.page.locator("main").focus()
    window.page.keyboard.type("gc")
    options = palette(window).get_by_role("option")
    window.page.keyboard.type(room.name)
    expect(options).to_have_count(1)
    window.page.keyboard.press("Enter")
    expect(window.page).to_have_url(re.compile(rf"#/c/{room.channel_id}$"))


def test_the_place_that_is_shown_can_be_searched_and_watched(window: Window, room: Room) -> None:
    room.post("a pangolin")
    room.post("another pangolin", topic_id=room.topic())
    window.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
    expect(window.page.get_by_role("heading", name=room.title)).to_be_visible()
    open_palette(window, "search in this topic")
    window.page.keyboard.press("Enter")
    expect(window.page).to_have_url(re.compile(f"topic={room.topic_id}"))
    window.page.get_by_role("searchbox", name="Search messages").fill("pangolin")
    expect(window.page.locator("a.hit")).to_have_count(1)
    window.page.goto(f"{room.hub.url}/ui#/c/{room.channel_id}")
    expect(window.page.get_by_role("heading", name=room.name)).to_be_visible()
    open_palette(window, "events in this channel")
    window.page.keyboard.press("Enter")
    expect(window.page).to_have_url(re.compile(rf"#/events\?channel={room.channel_id}$"))
