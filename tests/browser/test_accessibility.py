"""Everybody can use the page: axe finds nothing serious in any view, and the keyboard reaches everything."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.browsers import DESKTOP, PHONE, Window
from tests.browser.conftest import OpenWindow
from tests.browser.hubs import PageHub, Room

SERIOUS = ("serious", "critical")


def faults(window: Window) -> list[str]:
    """What axe finds serious in the page as it is now."""
    found = Axe().run(window.page).response["violations"]
    return [
        f"{violation['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for violation in found
        if violation["impact"] in SERIOUS
        for node in violation["nodes"]
    ]


@pytest.fixture(scope="module")
def story(hub: PageHub) -> Room:
    """A topic with one of everything."""
    room = Room(hub)
    question = room.post("Who takes the **parser**? See `src/app.py` and https://docs.example.com/guide", "ada")
    room.post(
        "I do.\n\n- one\n- two\n\n```python\nprint('hello')\n```\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |",
        "builder",
    )
    room.post("Fine with me.", "reviewer", reply_to=question)
    room.client.edit_message(room.post("Looks god."), "Looks good.")
    room.client.delete_message(room.post("oops"), "builder")
    moved = room.post("from elsewhere", topic_id=room.topic("Elsewhere"))
    room.client.retopic_message(moved, room.topic_id)
    room.client.add_attachment(room.topic_id, "decision", {"title": "Use SQLite", "why": "one file"}, key="store")
    room.post("unread here", topic_id=room.topic("Unread"))
    return room


@contextmanager
def opened(window: Window, name: str, press: Callable[[], None], role: str = "dialog") -> Iterator[None]:
    """Opens something that Escape closes."""
    press()
    overlay = window.page.get_by_role(role)  # pyright: ignore[reportArgumentType]
    focus = window.page.evaluate("() => `${document.hasFocus()}, ${document.activeElement?.outerHTML.slice(0, 80)}`")
    expect(overlay, f"{name} did not open; the focus was: {focus}").to_be_visible()
    yield
    window.page.keyboard.press("Escape")
    expect(overlay, f"{name} did not close").to_have_count(0)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_serious_in_any_view(
    hub: PageHub, story: Room, open_window: OpenWindow, dark: bool, size: tuple[int, int]
) -> None:
    window = open_window(hub, size=size, dark=dark)
    page = window.page
    found: dict[str, list[str]] = {}
    for name, route, sign in (
        ("home", "#/", page.get_by_role("heading", name="Recent")),
        ("channel", f"#/c/{story.channel_id}", page.get_by_role("heading", name=story.name)),
        ("search", "#/search?q=parser", page.locator("a.hit").first),
        ("events", f"#/events?channel={story.channel_id}", page.locator("li.event").first),
        ("status", "#/status", page.get_by_role("heading", name="Status")),
        ("topic", f"#/t/{story.topic_id}", page.get_by_role("article").last),
    ):
        page.goto(f"{hub.url}/ui{route}")
        expect(sign).to_be_visible()
        if name == "events":
            page.locator("button.event-toggle").first.click()
        found[name] = faults(window)
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_serious_in_what_opens_above_a_view(
    hub: PageHub, story: Room, open_window: OpenWindow, dark: bool
) -> None:
    window = open_window(hub, f"#/t/{story.topic_id}", dark=dark)
    page = window.page
    expect(page.get_by_role("article").first).to_be_visible()
    first = window.message_ids()[0]
    found: dict[str, list[str]] = {}
    for name, press in {
        "palette": lambda: page.keyboard.press("Control+k"),
        "shortcuts": lambda: page.keyboard.press("?"),
        "name": lambda: window.sidebar.get_by_role("button", name="Choose your name").click(),
        "new channel": lambda: window.sidebar.get_by_role("button", name="New channel").click(),
        "history": lambda: window.choose(first, "History"),
        "move": lambda: window.choose(first, "Move…"),
    }.items():
        with opened(window, name, press):
            found[name] = faults(window)
    window.message(first).hover()
    more = window.message(first).get_by_role("button", name="More actions")
    with opened(window, "menu", more.click, "menu"):
        found["menu"] = faults(window)
    window.choose(first, "Edit")
    found["editor"] = faults(window)
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_serious_before_the_log_in(hub: PageHub, open_window: OpenWindow, dark: bool) -> None:
    window = open_window(hub, "#/", dark=dark, log_in=False)
    window.expect_problem("401")
    expect(window.page.get_by_test_id("login")).to_be_visible()
    assert faults(window) == []


def test_control_axe_sees_what_it_is_for(window: Window) -> None:
    expect(window.sidebar).to_be_visible()
    window.page.evaluate(
        "() => { const button = document.createElement('button'); document.querySelector('main').append(button); }"
    )
    assert [fault for fault in faults(window) if fault.startswith("button-name")]


def test_a_topic_is_read_and_answered_by_keys(window: Window, room: Room) -> None:
    ids = [room.post(f"number {number}") for number in range(4)]
    page = window.page
    window.call_me("ada")
    page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
    expect(window.message(ids[-1])).to_be_visible()
    page.keyboard.press("k")
    expect(window.message(ids[3])).to_be_focused()
    page.keyboard.press("k")
    expect(window.message(ids[2])).to_be_focused()
    page.keyboard.press("j")
    expect(window.message(ids[3])).to_be_focused()

    page.keyboard.press("r")
    expect(page.get_by_text("Replying to planner: number 3")).to_be_visible()
    page.keyboard.type("by keys alone")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article")).to_have_count(5)
    answer = room.ids()[-1]
    assert room.message(answer).reply_to == ids[3]

    window.message(answer).focus()
    page.keyboard.press("e")
    expect(window.message(answer).get_by_role("textbox")).to_be_focused()
    page.keyboard.type(", edited")
    page.keyboard.press("Enter")
    expect(window.message(answer)).to_contain_text("by keys alone, edited")
    expect(window.message(answer)).to_be_focused()

    page.keyboard.press("h")
    expect(page.get_by_role("dialog", name="History")).to_be_visible()
    page.keyboard.press("Escape")
    expect(window.message(answer)).to_be_focused()
    page.keyboard.press("m")
    expect(page.get_by_role("dialog", name="Move to another topic")).to_be_visible()
    page.keyboard.press("Escape")
    expect(window.message(answer)).to_be_focused()
    page.keyboard.press("c")
    expect(page.get_by_role("form", name="New message").get_by_role("textbox")).to_be_focused()


def test_a_dialog_that_closes_leaves_the_focus_to_whoever_has_taken_it_meanwhile(window: Window, room: Room) -> None:
    message = room.post("hello")
    page = window.page
    page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
    window.message(message).focus()
    page.keyboard.press("m")
    expect(page.get_by_role("dialog", name="Move to another topic")).to_be_visible()
    kept = page.evaluate(
        """() => new Promise((resolve) => {
          const dialog = document.querySelector("dialog[open]");
          const composer = document.querySelector(".composer-input");
          dialog.addEventListener("close", () => resolve(document.activeElement === composer));
          dialog.close();
          composer.focus();
        })"""
    )
    assert kept


def test_a_menu_is_used_by_keys_and_gives_the_focus_back(window: Window, room: Room) -> None:
    message_id = room.post("with a menu")
    window.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
    button = window.message(message_id).get_by_role("button", name="More actions")
    button.focus()
    window.page.keyboard.press("Enter")
    items = window.page.get_by_role("menuitem")
    expect(items.first).to_be_focused()
    window.page.keyboard.press("ArrowDown")
    expect(items.nth(1)).to_be_focused()
    window.page.keyboard.press("End")
    expect(items.last).to_be_focused()
    window.page.keyboard.press("Escape")
    expect(items).to_have_count(0)
    expect(button).to_be_focused()


def test_the_first_tab_stop_leads_past_the_sidebar(window: Window) -> None:
    expect(window.sidebar).to_be_visible()
    window.page.keyboard.press("Tab")
    skip = window.page.get_by_role("button", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    window.page.keyboard.press("Enter")
    expect(window.page.get_by_role("main")).to_be_focused()


def test_new_messages_are_announced_to_a_screen_reader(window: Window, room: Room) -> None:
    room.post("already there")
    window.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
    expect(window.page.get_by_role("article")).to_have_count(1)
    room.post("fresh words", "builder")
    expect(window.page.get_by_test_id("announcer")).to_contain_text(re.compile("builder"))
