"""The topic view: everything that was said, as it is now, and a link to each of it."""

import re

from playwright.sync_api import expect

from tests.browser.browsers import Window
from tests.browser.conftest import OpenWindow
from tests.browser.hubs import PageHub, Room


def open_topic(window: Window, room: Room, message_id: str | None = None) -> None:
    """Shows the room's topic, or one message of it."""
    place = f"#/t/{room.topic_id}" + (f"/m/{message_id}" if message_id else "")
    window.page.goto(f"{room.hub.url}/ui{place}")
    expect(window.timeline).to_have_attribute("aria-busy", "false")


def test_a_topic_shows_its_messages_in_order(window: Window, room: Room) -> None:
    ids = [room.post(f"number {number}", sender) for number, sender in enumerate(("ada", "builder", "builder", "ada"))]
    open_topic(window, room)
    expect(window.message(ids[-1])).to_be_in_viewport()
    assert window.message_ids() == ids
    expect(window.page.get_by_role("heading", name=room.title)).to_be_visible()
    expect(window.message(ids[0])).to_contain_text("number 0")
    expect(window.message(ids[0]).get_by_text("ada", exact=True)).to_be_visible()


def test_messages_are_drawn_as_markdown(window: Window, room: Room) -> None:
    text = "**bold** and `code`\n\n- one\n- two\n\n```python\nprint(1)\n```\n\n[docs](https://docs.example.com/a) https://plain.example.com"
    message = window.message(room.post(text))
    open_topic(window, room)
    expect(message.locator("strong")).to_have_text("bold")
    expect(message.locator("li")).to_have_text(["one", "two"])
    expect(message.locator("pre")).to_contain_text("print(1)")
    links = message.locator(".message-body a")
    expect(links).to_have_count(2)
    for link, target in zip(links.all(), ("https://docs.example.com/a", "https://plain.example.com"), strict=True):
        assert (link.get_attribute("href") or "").rstrip("/") == target
        assert link.get_attribute("target") == "_blank"
        assert link.get_attribute("rel") == "noopener noreferrer"


def test_a_reply_shows_what_it_answers_and_leads_there(window: Window, room: Room) -> None:
    question = room.post("Who takes the **parser**?", "ada")
    for number in range(40):
        room.post(f"in between {number}\n\nand more")
    answer = window.message(room.post("I do.", "builder", reply_to=question))
    open_topic(window, room)
    quote = answer.get_by_role("button", name=re.compile("In reply to ada"))
    expect(quote).to_contain_text("Who takes the")
    quote.click()
    expect(window.message(question)).to_be_in_viewport()


def test_an_edited_message_shows_its_history_on_demand(window: Window, room: Room) -> None:
    message_id = room.post("the first words")
    room.client.edit_message(message_id, "the second words")
    room.client.edit_message(message_id, "the third words")
    open_topic(window, room)
    message = window.message(message_id)
    expect(message).to_contain_text("the third words")
    message.get_by_role("button", name="edited, show the history").click()
    entries = window.page.get_by_role("dialog", name="History").get_by_role("listitem")
    expect(entries).to_have_count(3)
    expect(entries.first).to_contain_text("third")
    expect(entries.last).to_contain_text("the first words")
    window.page.keyboard.press("Escape")
    expect(window.page.get_by_role("dialog")).to_have_count(0)


def test_a_deleted_message_leaves_a_tombstone_without_its_text(window: Window, room: Room) -> None:
    message_id = room.post("the secret words")
    reply = room.post("quoting you", reply_to=message_id)
    room.client.delete_message(message_id, "reviewer")
    open_topic(window, room)
    expect(window.message(message_id)).to_contain_text("Deleted by reviewer")
    expect(window.message(reply)).to_contain_text("deleted message")
    assert "secret" not in window.page.content()


def test_a_moved_message_is_marked_and_tells_where_it_came_from(window: Window, room: Room) -> None:
    other = room.topic()
    message_id = room.post("belongs elsewhere", topic_id=other)
    room.client.retopic_message(message_id, room.topic_id)
    open_topic(window, room)
    window.message(message_id).get_by_role("button", name="moved, show the history").click()
    history = window.page.get_by_role("dialog", name="History")
    expect(history).to_contain_text("Moved")
    expect(history.get_by_role("link", name=room.title)).to_be_visible()


def test_a_link_to_a_message_opens_its_topic_there(hub: PageHub, room: Room, open_window: OpenWindow) -> None:
    ids = [room.post(f"number {number}\n\nwith a second line") for number in range(150)]
    window = open_window(hub, f"#/t/{room.topic_id}/m/{ids[20]}")
    expect(window.message(ids[20])).to_be_in_viewport()
    open_topic(window, room, ids[100])
    expect(window.message(ids[100])).to_be_in_viewport()
    expect(window.message(ids[100])).to_be_focused()
    shown = window.message_ids()
    assert shown == ids[ids.index(shown[0]) : ids.index(shown[-1]) + 1]


def test_a_link_to_a_message_follows_it_to_the_topic_it_was_moved_to(window: Window, room: Room) -> None:
    message_id = room.post("on the road")
    other = room.topic()
    room.client.retopic_message(message_id, other)
    window.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}/m/{message_id}")
    expect(window.message(message_id)).to_be_visible()
    window.page.wait_for_url(f"**/t/{other}/m/{message_id}")


def test_a_place_that_does_not_exist_is_said_so(window: Window, room: Room) -> None:
    window.expect_problem("404")
    window.page.goto(f"{room.hub.url}/ui#/t/topic_nowhere")
    expect(window.page.get_by_role("main")).to_contain_text(re.compile("no such topic|not found", re.IGNORECASE))


def test_attachments_are_shown_as_cards(window: Window, room: Room) -> None:
    room.post("read https://docs.example.com/guide first")
    room.client.add_attachment(room.topic_id, "decision", {"title": "Use SQLite", "why": "one file"}, key="store")
    open_topic(window, room)
    cards = window.attachments
    expect(cards).to_have_count(2)
    decision = cards.filter(has_text="decision")
    expect(decision).to_contain_text("Use SQLite")
    link = cards.filter(has_text="docs.example.com").get_by_role("link").first
    expect(link).to_have_attribute("href", "https://docs.example.com/guide")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
