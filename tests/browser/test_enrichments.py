"""What plugins find in messages, drawn into them: links, places and notes, and nothing that a plugin says can run."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser import xss
from tests.browser.browsers import Window
from tests.browser.hubs import PageHub, Room

SETTINGS = """
[[plugins]]
name = "links"
type = "linkifier"

[[plugins]]
name = "tickets"
type = "linkifier"
module = "tickets.py"

[[plugins]]
name = "hostile"
type = "linkifier"
module = "hostile.py"
"""
TICKETS = """
from parley.plugin import find, link

def enrich(message, config):
    return [link(match, f"https://tickets.example.com/{match[0]}") for match in find(r"TICKET-[0-9]+", message)]
"""
HOSTILE = """
from parley.plugin import Enrichment, Span

PAYLOADS = {payloads}
SHAPES = (
    lambda text: ("message", {{"message_id": text}}),
    lambda text: ("file_path", {{"path": text}}),
    lambda text: ("code_ref", {{"path": text, "line": text}}),
    lambda text: (text[:100], {{"url": text, text: [text]}}),
)

def enrich(message, config):
    if "beware" not in message.content_raw:
        return []
    first, shape = (int(word) for word in message.content_raw.split()[1:3])
    words = [(at, at + 1) for at, letter in enumerate(message.content_raw) if letter == "x"]
    found = zip(words, PAYLOADS[first:first + len(words)])
    return [Enrichment(kind, Span(*span), data) for span, text in found for kind, data in [SHAPES[shape](text)]]
"""
SHAPES = 4
"""Kinds ``url`` and ``link`` are not among them: the hub itself refuses what is no address of the web there."""
AT_ONCE = 20


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageHub]:
    """A hub whose plugins find links, places and every payload."""
    folder = tmp_path_factory.mktemp("enriched")
    payloads = json.dumps([xss.armed(number) for number in range(len(xss.PAYLOADS))])
    (folder / "parley.toml").write_text(SETTINGS)
    (folder / "tickets.py").write_text(TICKETS)
    (folder / "hostile.py").write_text(HOSTILE.format(payloads=payloads))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARLEY_HOME", str(tmp_path_factory.mktemp("home")))
        hub = PageHub(folder)
        hub.start()
        trust = [sys.executable, "-m", "parley", "trust", "--yes", "--workspace", str(folder)]
        subprocess.run(trust, check=True, capture_output=True, timeout=60)
        hub.stop()
        hub.start()
    yield hub
    hub.end()


def test_findings_become_links_as_soon_as_they_are_there(window: Window, room: Room) -> None:
    first = room.post("the beginning of it all")
    window.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
    found = window.message(room.post(f"see src/app.py:42, TICKET-7 and {first}"))
    link = found.get_by_role("link", name="TICKET-7")
    expect(link).to_have_attribute("href", "https://tickets.example.com/TICKET-7")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(found.get_by_role("button", name="src/app.py:42")).to_be_visible()
    found.get_by_role("link", name=first).click()
    expect(window.page).to_have_url(re.compile(f"/m/{first}$"))
    expect(window.message(first)).to_be_focused()


def test_an_edit_replaces_what_was_found(window: Window, room: Room) -> None:
    message_id = room.post("about TICKET-1")
    window.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
    message = window.message(message_id)
    expect(message.get_by_role("link", name="TICKET-1")).to_be_visible()
    room.client.edit_message(message_id, "well, about TICKET-2")
    expect(message.get_by_role("link", name="TICKET-2")).to_be_visible()
    expect(message.get_by_role("link", name="TICKET-1")).to_have_count(0)


def test_nothing_that_a_plugin_finds_can_run(window: Window, room: Room) -> None:
    numbers = range(0, len(xss.PAYLOADS), AT_ONCE)
    text = "beware {} {} " + "x " * AT_ONCE
    ids = [room.post(text.format(first, shape)) for first in numbers for shape in range(SHAPES)]
    window.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
    for message_id in ids:
        marked = window.message(message_id).locator(".md-ref, .md-note, .message-body a, mark")
        expect(marked.first).to_be_attached()
    assert window.page.evaluate(f"window.{xss.MARKS}") is None
    assert window.page.evaluate(xss.FOREIGN_NODES) == []
