"""The event explorer: the log's end, live, each event once, and every payload to the last member."""

import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.browsers import UNREACHABLE, Window
from tests.browser.conftest import MakeHub, OpenWindow
from tests.browser.hubs import PageHub, Room
from tests.browser.seeding import long_topic


def rows(window: Window) -> Locator:
    return window.page.locator("li.event")


def shown_ids(window: Window) -> list[int]:
    """From top to bottom."""
    return rows(window).evaluate_all("all => all.map((row) => Number(row.dataset.eventId))")


def open_events(window: Window, room: Room, query: str = "") -> None:
    """The events of the test's own channel."""
    window.page.goto(f"{room.hub.url}/ui#/events?channel={room.channel_id}{query}")
    expect(window.page.locator(".events-count")).to_contain_text("shown")


def log_ids(room: Room) -> list[int]:
    """The channel's events, newest first, as the hub has them."""
    page = room.client.read_events(0, channels=[room.channel_id], limit=1000)
    return [event.event_id for event in page.events][::-1]


def test_events_come_live_in_order_and_once(window: Window, room: Room) -> None:
    open_events(window, room)
    expect(rows(window)).to_have_count(2)
    for number in range(5):
        room.post(f"live {number}")
    expect(rows(window)).to_have_count(7)
    assert shown_ids(window) == log_ids(room)
    expect(rows(window).first).to_contain_text("planner: live 4")


def test_a_pause_holds_events_back_and_counts_them(window: Window, room: Room) -> None:
    open_events(window, room)
    expect(rows(window)).to_have_count(2)
    window.page.get_by_role("button", name="Pause").click()
    for number in range(3):
        room.post(f"meanwhile {number}")
    resume = window.page.get_by_role("button", name="Resume, 3 waiting")
    expect(resume).to_be_visible()
    expect(rows(window)).to_have_count(2)
    window.page.keyboard.press("p")
    expect(rows(window)).to_have_count(5)
    assert shown_ids(window) == log_ids(room)


def test_rows_open_to_the_whole_payload(window: Window, room: Room) -> None:
    message_id = room.post("line one\nline two <b>bold</b> \u202e")
    open_events(window, room, f"&entity={message_id}")
    expect(rows(window)).to_have_count(1)
    toggle = rows(window).get_by_role("button", expanded=False)
    toggle.click()
    tree = rows(window).locator(".tree")
    expect(tree).to_contain_text("content_raw: line one")
    expect(tree).to_contain_text("line two <b>bold</b> RLO")
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tree.get_by_role("button", name="Copy payload").click()
    tree.locator("[data-copied=yes]").wait_for()
    copied = window.page.evaluate("async () => JSON.parse(await navigator.clipboard.readText())")
    assert copied["message"]["id"] == message_id
    rows(window).get_by_role("link", name=f"Go to message {message_id}").click()
    expect(window.message(message_id)).to_be_in_viewport()


def test_filters_narrow_what_is_shown_and_stand_in_the_address(
    hub: PageHub, room: Room, open_window: OpenWindow
) -> None:
    message_id = room.post("a walnut")
    room.client.edit_message(message_id, "a hazelnut")
    window = open_window(hub)
    open_events(window, room)
    expect(rows(window)).to_have_count(4)
    window.page.get_by_role("checkbox", name="message.edited").check()
    expect(rows(window)).to_have_count(1)
    window.page.get_by_role("checkbox", name="message.created").check()
    expect(rows(window)).to_have_count(2)
    window.page.get_by_label("Payload holds").fill("HAZEL")
    expect(rows(window)).to_have_count(1)
    expect(window.page).to_have_url(re.compile("text=HAZEL"))
    again = open_window(hub, window.page.url.removeprefix(f"{hub.url}/ui"))
    expect(rows(again)).to_have_count(1)
    expect(again.page.get_by_role("checkbox", name="message.edited")).to_be_checked()
    room.post("another hazel")
    expect(rows(again)).to_have_count(2)
    again.page.get_by_role("button", name="Clear").click()
    again.page.get_by_label("Channel", exact=True).select_option(label=room.name)
    again.page.get_by_label("Topic", exact=True).select_option(label=room.title)
    # All but the channel's own creation.
    expect(rows(again)).to_have_count(4)


def test_new_events_do_not_move_what_is_being_read(window: Window, room: Room) -> None:
    for number in range(60):
        room.post(f"number {number}")
    open_events(window, room)
    expect(rows(window)).to_have_count(62)
    read = rows(window).nth(40)
    read.scroll_into_view_if_needed()
    event_id = read.get_attribute("data-event-id")
    row = window.page.locator(f'li.event[data-event-id="{event_id}"]')
    before = row.bounding_box()
    for number in range(5):
        room.post(f"new {number}")
    expect(rows(window)).to_have_count(67)
    assert row.bounding_box() == before


def test_a_move_is_seen_from_both_topics(window: Window, room: Room) -> None:
    other = room.topic()
    message_id = room.post("a traveller")
    room.client.retopic_message(message_id, other, "one")
    for topic_id in (room.topic_id, other):
        open_events(window, room, f"&topic={topic_id}&name=message.moved_topic")
        expect(rows(window)).to_have_count(1)


def test_older_events_come_on_demand_until_the_beginning(window: Window, room: Room) -> None:
    for number in range(230):
        room.post(f"number {number}")
    open_events(window, room)
    expect(rows(window)).to_have_count(200)
    window.page.get_by_role("button", name="Older events").click()
    expect(rows(window)).to_have_count(232)
    assert shown_ids(window) == log_ids(room)
    expect(window.page.get_by_text("This is the beginning of the log.")).to_be_visible()


def test_the_window_onto_a_long_log_stays_small(make_hub: MakeHub, open_window: OpenWindow, tmp_path: Path) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    topic_id, _ = long_topic(folder, 2500)
    hub = make_hub(folder)
    window = open_window(hub, "#/events")
    older = window.page.get_by_role("button", name="Older events")
    expect(rows(window)).to_have_count(200)
    newest = shown_ids(window)[0]
    for count in (700, 1000):
        older.click()
        expect(rows(window)).to_have_count(count)
    # The newest made room for older ones, so the window rests in the past ...
    ids = shown_ids(window)
    assert ids == list(range(ids[0], ids[0] - 1000, -1))
    assert ids[0] < newest
    for number in range(2):
        hub.client.send_message(topic_id, f"news {number}", "ada")
    resume = window.page.get_by_role("button", name="Resume, 2 waiting")
    expect(resume).to_be_visible()
    # ... and goes back to the log's end when it is resumed.
    resume.click()
    expect(rows(window).first).to_contain_text("news 1")
    assert shown_ids(window)[0] == newest + 2
    # What a filter asks for is looked for beyond the newest events.
    window.page.get_by_label("Payload holds").fill("Entry number 7.")
    expect(rows(window)).to_have_count(1)
    expect(rows(window)).to_contain_text("Entry number 7.")


def test_events_of_a_lost_connection_are_neither_missed_nor_doubled(make_hub: MakeHub, open_window: OpenWindow) -> None:
    hub = make_hub()
    room = Room(hub)
    window = open_window(hub)
    window.expect_problem(UNREACHABLE)
    open_events(window, room)
    expect(rows(window)).to_have_count(2)
    port = hub.server.port
    hub.stop()
    hub.start("--port", str(port))
    for number in range(4):
        room.post(f"after {number}")
    expect(rows(window)).to_have_count(6)
    assert shown_ids(window) == log_ids(room)
