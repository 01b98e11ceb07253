"""Nothing that an agent posts can run in the page, whatever it is posted as and wherever it is shown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import xss
from tests.browser.browsers import Window
from tests.browser.conftest import OpenWindow
from tests.browser.hubs import PageHub, Room

_BELIEVE = f"""
async (text) => {{
  const main = document.querySelector("main");
  main.innerHTML = text;
  const foreign = ({xss.FOREIGN_NODES.strip()})();
  await new Promise((done) => {{
    const last = new Image();
    last.onerror = () => requestAnimationFrame(() => setTimeout(done, 0));
    last.src = "/last";
  }});
  main.replaceChildren();
  return foreign.length > 0;
}}
"""
"""What runs by itself runs when an image fails, a frame is drawn or a task ends; one of each after it comes later."""


def test_the_corpus_is_large_and_each_payload_is_its_own() -> None:
    assert len(set(xss.PAYLOADS)) == len(xss.PAYLOADS)
    assert len(xss.fitting(100)) >= 60


def test_control_a_page_that_believes_the_texts_is_caught(chromium: Browser) -> None:
    context = chromium.new_context()
    context.route("**/*", lambda route: route.fulfill(content_type="text/html", body="<main></main>"))
    page = context.new_page()
    staying = [number for number, text in enumerate(xss.HTML) if "refresh" not in text]  # which leaves the page at once
    page.goto("https://page.example/")
    caught = {number for number in staying if page.evaluate(_BELIEVE, xss.armed(number))}
    ran = set[int](page.evaluate(f"window.{xss.MARKS}"))
    context.close()
    assert len(ran) >= 20
    assert ran <= caught


@dataclass(frozen=True)
class Hostile:
    """A workspace in which everything that can be named or said is a payload."""

    hub: PageHub
    channel_id: str
    said: str
    """The topic whose messages are payloads, by senders that are payloads."""
    answered: str
    """The topic whose messages answer them."""
    deleted: str
    """The topic whose messages were deleted by payloads; its attachments are payloads."""
    edited_id: str
    """A message that was every payload in turn."""
    count: int


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    hub = PageHub(tmp_path_factory.mktemp("hostile"))
    hub.start()
    yield fill(hub)
    hub.end()


def fill(hub: PageHub) -> Hostile:
    client, payloads = hub.client, [(number, xss.armed(number)) for number in range(len(xss.PAYLOADS))]
    room = Room(hub)
    answered, deleted = room.topic("answers"), room.topic("deleted")
    said = [room.post(text, text[:200]) for _, text in payloads]
    for _, name in xss.fitting(100):
        client.create_channel(name, name)
    for _, title in xss.fitting(200):
        room.topic(title)
    edited_id = room.post("at first", topic_id=answered)
    for (_, text), message_id in zip(payloads, said, strict=True):
        room.post("an answer", topic_id=answered, reply_to=message_id)
        client.edit_message(edited_id, text)
        client.delete_message(room.post("gone", topic_id=deleted), text[:200])
    for number, text in xss.fitting(200):
        value = {text: text, "url": text, "title": text, "list": [text], "__proto__": text}
        client.add_attachment(deleted, text[:100], value, key=text)
        link = {"url": f"https://a.example/{number}", "title": text, "description": text}
        client.add_attachment(deleted, "reference", link, key=text)
    return Hostile(hub, room.channel_id, room.topic_id, answered, deleted, edited_id, len(payloads))


def is_harmless(window: Window) -> None:
    """Nothing ran, nothing is in the page that text cannot make, and the page is still ours."""
    assert window.page.evaluate(f"window.{xss.MARKS}") is None
    assert window.page.evaluate(xss.FOREIGN_NODES) == []
    assert window.page.url.startswith(f"{min(window.origins)}/ui")


def read_all(window: Window, count: int) -> None:
    """Reads a topic from its end to its beginning; it is short enough to stay in the page as a whole."""
    articles = window.page.locator("article[data-message-id]")
    expect(articles.first).to_be_visible()
    while (shown := articles.count()) < count:
        window.timeline.evaluate("(timeline) => { timeline.scrollTop = 0; }")
        expect(articles.nth(shown)).to_be_attached()
    is_harmless(window)


def test_what_is_said_stays_text(hostile: Hostile, open_window: OpenWindow) -> None:
    window = open_window(hostile.hub, f"#/t/{hostile.said}")
    read_all(window, hostile.count)
    for body, text in zip(window.page.locator(".message-body").all(), xss.PAYLOADS, strict=True):
        if text in xss.HTML:
            assert text.partition(xss.RUN)[0].split("](")[0] in body.inner_text()


def test_quotes_tombstones_and_cards_stay_text(hostile: Hostile, open_window: OpenWindow) -> None:
    window = open_window(hostile.hub, f"#/t/{hostile.answered}")
    read_all(window, hostile.count + 1)
    window.page.goto(f"{hostile.hub.url}/ui#/t/{hostile.deleted}")
    more = window.page.get_by_role("complementary", name="Attachments").get_by_role("button", name="Show more")
    more.click()
    expect(more).to_be_hidden()
    assert window.attachments.count() == 2 * len(xss.fitting(200))
    read_all(window, hostile.count)


def test_histories_stay_text(hostile: Hostile, open_window: OpenWindow) -> None:
    window = open_window(hostile.hub, f"#/t/{hostile.answered}/m/{hostile.edited_id}")
    window.message(hostile.edited_id).get_by_role("button", name=re.compile("show the history")).click()
    expect(window.page.get_by_role("dialog").get_by_role("listitem")).to_have_count(hostile.count + 1)
    is_harmless(window)


def test_names_and_titles_stay_text(hostile: Hostile, open_window: OpenWindow) -> None:
    window = open_window(hostile.hub)
    expect(window.sidebar.get_by_role("region")).to_have_count(len(xss.fitting(100)) + 1)
    is_harmless(window)
    window.page.goto(f"{hostile.hub.url}/ui#/c/{hostile.channel_id}")
    rows = window.page.get_by_role("list", name="Topics").get_by_role("listitem")
    expect(rows.first).to_be_visible()
    while (shown := rows.count()) < len(xss.fitting(200)):
        window.page.get_by_role("main").get_by_role("button", name="More topics").click()
        expect(rows.nth(shown)).to_be_attached()
    is_harmless(window)
    window.page.keyboard.press("Control+k")
    window.page.get_by_role("combobox").fill("on")
    expect(window.page.get_by_role("option").nth(10)).to_be_visible()
    is_harmless(window)


def test_what_is_found_stays_text(hostile: Hostile, open_window: OpenWindow) -> None:
    window = open_window(hostile.hub)
    for query in ("onerror", "script", "tap", "javascript", *(xss.armed(number) for number in (0, 4, 57, 75))):
        window.page.goto(f"{hostile.hub.url}/ui#/search")
        window.page.get_by_role("searchbox", name="Search messages").fill(query)
        expect(window.page.locator("a.hit").first).to_be_visible()
        is_harmless(window)


def test_events_and_their_payloads_stay_text(hostile: Hostile, open_window: OpenWindow) -> None:
    window = open_window(hostile.hub, "#/events")
    toggles = window.page.locator("button.event-toggle")
    expect(toggles.nth(100)).to_be_attached()
    window.page.get_by_role("button", name="Older events").click()
    expect(toggles.nth(220)).to_be_attached()
    toggles.evaluate_all("(all) => all.forEach((toggle) => toggle.click())")
    is_harmless(window)


def test_dialogs_about_hostile_messages_stay_text(hostile: Hostile, open_window: OpenWindow) -> None:
    window = open_window(hostile.hub, f"#/t/{hostile.said}")
    articles = window.page.get_by_role("article")
    expect(articles.last).to_be_visible()
    for message_id in window.message_ids()[-12:]:
        window.choose(message_id, "Move…")
        expect(window.page.get_by_role("dialog").get_by_role("radio").nth(10)).to_be_attached()
        is_harmless(window)
        window.page.keyboard.press("Escape")
        window.choose(message_id, "Edit")
        is_harmless(window)
        window.page.keyboard.press("Escape")
        window.message(message_id).get_by_role("button", name="Reply").click()
        is_harmless(window)
