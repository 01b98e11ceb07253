"""The sidebar: every channel with its topics, what is unread and when something last happened."""

import re

from playwright.sync_api import Locator, expect

from tests.browser.browsers import Window
from tests.browser.conftest import OpenWindow
from tests.browser.hubs import PageHub, Room


def row(window: Window, topic_id: str) -> Locator:
    return window.sidebar.locator(f'a[data-topic-id="{topic_id}"]')


def test_topics_stand_under_their_channel_the_latest_first(window: Window, room: Room) -> None:
    later = room.topic("the later one")
    channel = window.sidebar.get_by_role("region", name=room.name)
    expect(channel.locator("a[data-topic-id]")).to_have_count(2)
    room.post("this one moved last")
    expect(channel.locator("a[data-topic-id]").first).to_have_attribute("data-topic-id", room.topic_id)
    expect(row(window, later).locator("time")).to_have_text("now")
    room.client.rename_topic(later, "another title")
    expect(row(window, later)).to_contain_text("another title")


def test_what_was_posted_elsewhere_is_unread_until_it_is_seen(window: Window, room: Room) -> None:
    other = room.topic()
    window.page.goto(f"{room.hub.url}/ui#/t/{other}")
    badge = row(window, room.topic_id).get_by_role("img")
    expect(badge).to_have_count(0)
    for number in range(3):
        room.post(f"news {number}")
    expect(badge).to_have_attribute("aria-label", "3 unread")
    expect(window.page).to_have_title(re.compile(r"^\(1\) "))
    window.page.reload()
    expect(badge).to_have_attribute("aria-label", "3 unread")
    row(window, room.topic_id).click()
    expect(window.timeline).to_contain_text("news 2")
    expect(badge).to_have_count(0)
    expect(window.page).not_to_have_title(re.compile(r"^\("))


def test_what_is_read_in_one_window_is_read_in_the_other(hub: PageHub, room: Room, open_window: OpenWindow) -> None:
    first = open_window(hub)
    second = open_window(hub, beside=first)
    room.post("news")
    for window in (first, second):
        expect(row(window, room.topic_id).get_by_role("img")).to_have_attribute("aria-label", "1 unread")
    row(first, room.topic_id).click()
    for window in (first, second):
        expect(row(window, room.topic_id).get_by_role("img")).to_have_count(0)


def test_what_one_posts_oneself_is_not_unread(window: Window, room: Room) -> None:
    window.call_me("ada")
    window.page.goto(f"{room.hub.url}/ui#/status")
    room.post("from ada's other terminal", "ada")
    room.post("from an agent", "builder")
    expect(row(window, room.topic_id).get_by_role("img")).to_have_attribute("aria-label", "1 unread")


def test_a_channel_folds_and_stays_folded(window: Window, room: Room) -> None:
    expect(row(window, room.topic_id)).to_be_visible()
    window.sidebar.get_by_role("button", name=f"Fold {room.name}", exact=True).click()
    expect(row(window, room.topic_id)).to_have_count(0)
    window.page.reload()
    window.sidebar.get_by_role("button", name=f"Unfold {room.name}").click()
    expect(row(window, room.topic_id)).to_be_visible()


def test_the_filter_finds_channels_and_topics(window: Window, room: Room) -> None:
    other = Room(room.hub)
    field = window.sidebar.get_by_role("searchbox", name="Filter channels and topics")
    field.fill(room.title)
    expect(row(window, room.topic_id)).to_be_visible()
    expect(row(window, other.topic_id)).to_have_count(0)
    field.fill(other.name)
    expect(row(window, other.topic_id)).to_be_visible()
    field.press("Escape")
    expect(row(window, room.topic_id)).to_be_visible()


def test_a_channel_with_many_topics_shows_them_as_asked(window: Window, room: Room) -> None:
    ids = [room.topic(f"topic number {number:03}") for number in range(60)]
    channel = window.sidebar.get_by_role("region", name=room.name)
    expect(row(window, ids[-1])).to_be_visible()
    expect(row(window, ids[0])).to_have_count(0)
    more = channel.get_by_role("button", name="More topics")
    while more.is_visible():
        shown = channel.locator("a[data-topic-id]").count()
        more.click()
        one_more = channel.locator("a[data-topic-id]").nth(shown)
        # What was created while a page was loaded is shown already, and then the last page adds nothing.
        expect(one_more.or_(channel.locator("button.more-topics[hidden]")).first).to_be_attached()
    expect(row(window, ids[0])).to_be_visible()
    assert channel.locator("a[data-topic-id]").count() == len(ids) + 1
