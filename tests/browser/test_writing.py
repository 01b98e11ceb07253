"""What a person does with the page: write, answer, edit, delete, move, create, rename, and settle conflicts."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.browsers import Window
from tests.browser.conftest import OpenWindow
from tests.browser.hubs import PageHub, Room

CONFLICT = "409"
"""A browser logs every refused request as an error."""


@pytest.fixture
def ada(hub: PageHub, room: Room, open_window: OpenWindow) -> Window:
    """Ada's window, in the room's topic."""
    window = open_window(hub)
    window.call_me("ada")
    window.page.goto(f"{hub.url}/ui#/t/{room.topic_id}")
    expect(window.timeline).to_have_attribute("aria-busy", "false")
    return window


@pytest.fixture
def bob(hub: PageHub, room: Room, open_window: OpenWindow) -> Window:
    """Another browser, in the same topic."""
    window = open_window(hub, f"#/t/{room.topic_id}")
    expect(window.timeline).to_have_attribute("aria-busy", "false")
    return window


def field(window: Window) -> Locator:
    """Where messages are written."""
    return window.page.get_by_role("form", name="New message").get_by_role("textbox")


def posted(room: Room) -> list[tuple[str, str]]:
    """Who said what, as the hub has it."""
    return [(message.sender, message.content_raw) for message in map(room.message, room.ids())]


def test_a_message_is_written_once_and_seen_by_others(ada: Window, bob: Window, room: Room) -> None:
    field(ada).fill("good *morning*")
    field(ada).press("Shift+Enter")
    field(ada).press_sequentially("a second line")
    field(ada).press("Enter")
    for window in (ada, bob):
        article = window.page.get_by_role("article")
        expect(article).to_have_count(1)
        expect(article).to_contain_text("a second line")
        expect(article.locator("em")).to_have_text("morning")
    expect(field(ada)).to_have_value("")
    expect(ada.page.get_by_test_id("pending")).to_have_count(0)
    assert posted(room) == [("ada", "good *morning*\na second line")]


def test_who_has_no_name_yet_is_asked_for_it(bob: Window, room: Room) -> None:
    field(bob).fill("hello")
    bob.page.get_by_role("button", name="Send").click()
    dialog = bob.page.get_by_role("dialog", name="Your name")
    dialog.get_by_role("textbox", name="Name").fill("bob")
    dialog.get_by_role("button", name="Save").click()
    expect(bob.page.get_by_role("article")).to_have_count(1)
    assert posted(room) == [("bob", "hello")]


def test_an_answer_refers_to_what_it_answers(ada: Window, room: Room) -> None:
    question = room.post("Who takes it?")
    ada.message(question).hover()
    ada.message(question).get_by_role("button", name="Reply").click()
    expect(ada.page.get_by_text("Replying to planner")).to_be_visible()
    field(ada).press_sequentially("I do")
    field(ada).press("Enter")
    expect(ada.page.get_by_role("article")).to_have_count(2)
    assert room.message(room.ids()[1]).reply_to == question


def test_a_draft_survives_a_visit_elsewhere_and_a_reload(ada: Window, room: Room) -> None:
    field(ada).fill("half a thought")
    ada.page.goto(f"{room.hub.url}/ui#/t/{room.topic()}")
    expect(field(ada)).to_have_value("")
    ada.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
    expect(field(ada)).to_have_value("half a thought")
    ada.page.reload()
    expect(field(ada)).to_have_value("half a thought")


def test_a_draft_outlives_a_second_window_on_the_same_topic(ada: Window, room: Room, open_window: OpenWindow) -> None:
    second = open_window(room.hub, f"#/t/{room.topic_id}", beside=ada)
    expect(field(second)).to_have_value("")
    field(ada).fill("half a thought")
    expect(field(second)).to_have_value("half a thought")
    field(second).fill("a whole thought")
    expect(field(ada)).to_have_value("a whole thought")
    field(second).press("Enter")
    expect(field(ada)).to_have_value("")
    field(ada).fill("the next one")
    expect(field(second)).to_have_value("the next one")
    ada.page.close()
    second.page.goto(f"{room.hub.url}/ui#/t/{room.topic()}")
    second.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}")
    expect(field(second)).to_have_value("the next one")
    assert posted(room) == [("ada", "a whole thought")]


def test_a_message_that_is_too_long_is_not_sent(ada: Window, room: Room) -> None:
    field(ada).fill("ä" * 32_769)
    expect(ada.page.get_by_text("Too long by 2 bytes")).to_be_visible()
    expect(ada.page.get_by_role("button", name="Send")).to_be_disabled()
    assert posted(room) == []


def test_what_is_written_while_the_hub_is_away_is_sent_once_when_it_is_back(ada: Window, room: Room) -> None:
    ada.expect_problem("ERR_|Failed to load")
    ada.context.set_offline(True)
    for text in ("first", "second"):
        field(ada).fill(text)
        field(ada).press("Enter")
    expect(ada.page.get_by_test_id("pending")).to_have_count(2)
    ada.context.set_offline(False)
    # Who does not want to wait presses the first button, unless the page was quicker and took it away.
    ada.page.get_by_role("button", name="Send now").evaluate_all("buttons => buttons[0]?.click()")
    expect(ada.page.get_by_role("article")).to_have_count(2)
    expect(ada.page.get_by_test_id("pending")).to_have_count(0)
    assert posted(room) == [("ada", "first"), ("ada", "second")]


def test_editing_changes_the_message_for_everybody(ada: Window, bob: Window, room: Room) -> None:
    message_id = room.post("the wrnog word")
    ada.choose(message_id, "Edit")
    editor = ada.message(message_id).get_by_role("textbox", name="Edit the message")
    expect(editor).to_have_value("the wrnog word")
    editor.fill("the right word")
    editor.press("Enter")
    for window in (ada, bob):
        expect(window.message(message_id)).to_contain_text("the right word")
        expect(window.message(message_id)).to_have_attribute("data-version", "2")
    expect(editor).to_have_count(0)


def test_an_edit_can_be_given_up(ada: Window, room: Room) -> None:
    message_id = room.post("stays")
    ada.choose(message_id, "Edit")
    editor = ada.message(message_id).get_by_role("textbox", name="Edit the message")
    editor.fill("something else")
    editor.press("Escape")
    expect(ada.message(message_id)).to_contain_text("stays")
    assert room.message(message_id).version == 1


@pytest.mark.parametrize(
    ("decision", "text"),
    [("Keep theirs", "their text"), ("Overwrite with mine", "my text"), ("Merge by hand", "both texts")],
)
def test_a_version_conflict_is_shown_and_settled(ada: Window, room: Room, decision: str, text: str) -> None:
    message_id = room.post("the text")
    ada.expect_problem(CONFLICT)
    ada.choose(message_id, "Edit")
    editor = ada.message(message_id).get_by_role("textbox", name="Edit the message")
    editor.fill("my text")
    room.client.edit_message(message_id, "their text")
    expect(ada.message(message_id)).to_contain_text("Someone changed this message meanwhile")
    ada.message(message_id).get_by_role("button", name="Save").click()
    dialog = ada.page.get_by_role("dialog", name="This message was changed meanwhile")
    expect(dialog.get_by_test_id("conflict-theirs")).to_contain_text("their")
    expect(dialog.get_by_test_id("conflict-mine")).to_contain_text("my")
    dialog.get_by_role("button", name=decision).click()
    if decision == "Merge by hand":
        dialog.get_by_role("textbox", name="Merged text").fill("both texts")
        dialog.get_by_role("button", name="Save merged text").click()
    expect(dialog).to_have_count(0)
    expect(ada.message(message_id)).to_contain_text(text)
    expect(editor).to_have_count(0)
    assert room.message(message_id).content_raw == text


def test_a_move_is_no_conflict_for_who_edits_the_text(ada: Window, room: Room) -> None:
    message_id = room.post("the text")
    ada.expect_problem(CONFLICT)
    ada.choose(message_id, "Edit")
    editor = ada.message(message_id).get_by_role("textbox", name="Edit the message")
    editor.fill("my text")
    other = room.topic()
    room.client.retopic_message(message_id, other)
    room.client.retopic_message(message_id, room.topic_id)
    expect(ada.message(message_id)).to_have_attribute("data-version", "3")
    expect(editor).to_have_value("my text")
    editor.press("Enter")
    expect(ada.message(message_id)).to_contain_text("my text")
    assert room.message(message_id).content_raw == "my text"


def test_a_text_is_not_lost_when_its_message_is_deleted_meanwhile(ada: Window, room: Room) -> None:
    message_id = room.post("the text")
    ada.choose(message_id, "Edit")
    editor = ada.message(message_id).get_by_role("textbox", name="Edit the message")
    editor.fill("my long text")
    room.client.delete_message(message_id, "reviewer")
    expect(ada.message(message_id)).to_contain_text("reviewer deleted this message meanwhile")
    expect(editor).to_have_value("my long text")


def test_a_message_is_deleted_after_a_question(ada: Window, bob: Window, room: Room) -> None:
    message_id = room.post("the secret")
    question = ada.page.get_by_role("dialog", name="Delete this message?")
    ada.choose(message_id, "Delete…")
    question.get_by_role("button", name="Cancel").click()
    expect(ada.message(message_id)).to_contain_text("the secret")
    ada.choose(message_id, "Delete…")
    question.get_by_role("button", name="Delete").click()
    for window in (ada, bob):
        expect(window.message(message_id)).to_contain_text("Deleted by ada")


@pytest.mark.parametrize(
    ("choice", "button", "moves"),
    [
        ("Only this message", "Move 1 message", [1]),
        ("This message and all later ones", "Move 3 messages", [1, 2, 3]),
        ("All messages of the topic", "Move 4 messages", [0, 1, 2, 3]),
    ],
)
def test_a_move_shows_beforehand_what_moves(
    ada: Window, bob: Window, room: Room, choice: str, button: str, moves: list[int]
) -> None:
    ids = [room.post(f"number {number}", f"agent-{number}") for number in range(4)]
    target = room.topic("the better place")
    ada.choose(ids[1], "Move…")
    dialog = ada.page.get_by_role("dialog", name="Move to another topic")
    dialog.get_by_role("radio", name=choice).check()
    dialog.get_by_role("radio", name="the better place").check()
    preview = dialog.get_by_test_id("move-preview")
    expect(preview).to_contain_text("will move to the better place")
    expect(preview).to_contain_text(f"agent-{moves[0]}")
    dialog.get_by_role("button", name=button).click()
    expect(dialog).to_have_count(0)
    for window in (ada, bob):
        for number, message_id in enumerate(ids):
            expect(window.message(message_id)).to_have_count(0 if number in moves else 1)
        expect(window.page.get_by_test_id("departure")).to_contain_text("moved to the better place")
    assert room.ids(target) == [ids[number] for number in moves]


def test_a_move_can_make_the_topic_it_goes_to(ada: Window, room: Room) -> None:
    message_id = room.post("deserves its own topic")
    ada.choose(message_id, "Move…")
    dialog = ada.page.get_by_role("dialog", name="Move to another topic")
    dialog.get_by_role("searchbox", name="Find or name a topic").fill("A topic of its own")
    dialog.get_by_role("button", name="Create topic").click()
    dialog.get_by_role("button", name="Move 1 message").click()
    expect(ada.message(message_id)).to_have_count(0)
    ada.page.get_by_test_id("departure").get_by_role("link").click()
    expect(ada.page.get_by_role("heading", name="A topic of its own")).to_be_visible()
    expect(ada.message(message_id)).to_be_visible()


def test_channels_and_topics_are_made_and_renamed(ada: Window, room: Room) -> None:
    name = f"new-{room.name}"
    ada.sidebar.get_by_role("button", name="New channel").click()
    dialog = ada.page.get_by_role("dialog", name="New channel")
    dialog.get_by_role("textbox", name="Name").fill(name)
    dialog.get_by_role("button", name="Create channel").click()
    expect(ada.page.get_by_role("heading", name=name)).to_be_visible()

    ada.page.get_by_role("main").get_by_role("button", name="New topic").click()
    dialog = ada.page.get_by_role("dialog", name=f"New topic in {name}")
    dialog.get_by_role("textbox", name="Title").fill("The first topic")
    dialog.get_by_role("button", name="Create topic").click()
    expect(ada.page.get_by_role("heading", name="The first topic")).to_be_visible()

    ada.page.get_by_role("button", name="Rename").click()
    dialog = ada.page.get_by_role("dialog", name="Rename topic")
    dialog.get_by_role("textbox", name="Title").fill("A better title")
    dialog.get_by_role("button", name="Rename").click()
    expect(ada.page.get_by_role("heading", name="A better title")).to_be_visible()
    expect(ada.sidebar.get_by_role("region", name=name).get_by_role("link", name="A better title")).to_be_visible()


def test_a_name_that_is_taken_is_said_so_and_can_be_changed(ada: Window, room: Room) -> None:
    ada.expect_problem("400")
    ada.sidebar.get_by_role("button", name="New channel").click()
    dialog = ada.page.get_by_role("dialog", name="New channel")
    dialog.get_by_role("textbox", name="Name").fill(room.name)
    dialog.get_by_role("button", name="Create channel").click()
    expect(dialog).to_contain_text(re.compile("already exists"))
    dialog.get_by_role("textbox", name="Name").fill(f"other-{room.name}")
    dialog.get_by_role("button", name="Create channel").click()
    expect(ada.page.get_by_role("heading", name=f"other-{room.name}")).to_be_visible()
