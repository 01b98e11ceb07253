"""The search view: what was asked stands in the address, what was found is marked and leads to its message."""

import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.browsers import UNREACHABLE, Window
from tests.browser.conftest import MakeHub, OpenWindow
from tests.browser.hubs import PageHub, Room


def hits(window: Window) -> Locator:
    return window.page.locator("a.hit")


def field(window: Window) -> Locator:
    return window.page.get_by_role("searchbox", name="Search messages")


def search(window: Window, hub: PageHub, query: str) -> None:
    window.page.goto(f"{hub.url}/ui#/search")
    field(window).fill(query)


def test_hits_are_marked_and_lead_to_their_message(window: Window, room: Room) -> None:
    found = room.post("The zebracorn stands at the gate.", "ada")
    room.post("Nothing of the sort.")
    search(window, room.hub, "zebracorn gate")
    expect(hits(window)).to_have_count(1)
    expect(hits(window).locator("mark")).to_have_text(["zebracorn", "gate"])
    hits(window).click()
    expect(window.page).to_have_url(re.compile(rf"#/t/{room.topic_id}/m/{found}$"))
    expect(window.message(found)).to_be_in_viewport()


def test_the_last_word_need_not_be_finished(window: Window, room: Room) -> None:
    room.post("All of it is unbelievable, quokkalike.")
    search(window, room.hub, "quokk")
    expect(hits(window).locator("mark")).to_have_text(["quokkalike"])


def test_case_and_accents_do_not_matter_to_the_marks(window: Window, room: Room) -> None:
    room.post("Le Résumé était NAÏVE, 😀 vraiment.")
    search(window, room.hub, "resume naive vraiment")
    expect(hits(window).locator("mark")).to_have_text(["Résumé", "NAÏVE", "vraiment"])


def test_hits_stand_under_their_topics(window: Window, room: Room) -> None:
    other = room.topic("The other side")
    room.post("walrusfish one")
    room.post("walrusfish two", topic_id=other)
    room.post("walrusfish three")
    search(window, room.hub, "walrusfish")
    expect(hits(window)).to_have_count(3)
    sections = window.page.locator("main section")
    expect(sections).to_have_count(2)
    expect(sections.filter(has_text="The other side").locator("a.hit")).to_have_count(1)
    expect(sections.filter(has_text=room.title).locator("a.hit")).to_have_count(2)


def test_the_address_carries_the_whole_question(hub: PageHub, room: Room, open_window: OpenWindow) -> None:
    other = room.topic("Another place")
    room.post("lynxberry here", "ada")
    room.post("lynxberry here too", "builder")
    room.post("lynxberry there", "ada", topic_id=other)
    window = open_window(hub)
    search(window, hub, "lynxberry")
    expect(hits(window)).to_have_count(3)
    form = window.page.get_by_role("search")
    form.get_by_label("Channel").select_option(label=room.name)
    form.get_by_label("Topic").select_option(label=room.title)
    expect(hits(window)).to_have_count(2)
    form.get_by_label("Sender").fill("ada")
    expect(hits(window)).to_have_count(1)
    expect(window.page.get_by_role("status").filter(has_text="1 message of 2 loaded")).to_be_visible()
    again = open_window(hub, window.page.url.removeprefix(f"{hub.url}/ui"))
    expect(hits(again)).to_have_count(1)
    expect(field(again)).to_have_value("lynxberry")
    expect(again.page.get_by_role("search").get_by_label("Sender")).to_have_value("ada")


def test_days_that_do_not_fit_leave_nothing_and_say_so(window: Window, room: Room) -> None:
    room.post("heronstone")
    search(window, room.hub, "heronstone")
    expect(hits(window)).to_have_count(1)
    window.page.get_by_role("search").get_by_label("To", exact=True).fill("2001-01-01")
    expect(hits(window)).to_have_count(0)
    expect(window.page.get_by_text("the sender or the days do not fit")).to_be_visible()
    window.page.get_by_role("button", name="Clear filters").click()
    expect(hits(window)).to_have_count(1)


def test_more_hits_are_loaded_on_demand_and_none_twice(window: Window, room: Room) -> None:
    ids = {room.post(f"otterwave {number}") for number in range(70)}
    search(window, room.hub, "otterwave")
    expect(hits(window)).to_have_count(50)
    window.page.get_by_role("button", name="Load more").click()
    expect(hits(window)).to_have_count(70)
    assert set(hits(window).evaluate_all("all => all.map((hit) => hit.dataset.messageId)")) == ids
    expect(window.page.get_by_role("button", name="Load more")).to_be_hidden()


def test_hits_are_gone_through_by_keys(window: Window, room: Room) -> None:
    for number in range(3):
        room.post(f"badgermoss {number}")
    search(window, room.hub, "badgermoss")
    expect(hits(window)).to_have_count(3)
    keyboard = window.page.keyboard
    keyboard.press("ArrowDown")
    expect(hits(window).nth(0)).to_be_focused()
    keyboard.press("j")
    expect(hits(window).nth(1)).to_be_focused()
    keyboard.press("End")
    expect(hits(window).nth(2)).to_be_focused()
    keyboard.press("k")
    keyboard.press("ArrowUp")
    keyboard.press("ArrowUp")
    expect(field(window)).to_be_focused()
    keyboard.press("ArrowDown")
    keyboard.press("/")
    expect(field(window)).to_be_focused()
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    expect(window.page).to_have_url(re.compile(rf"#/t/{room.topic_id}/m/"))


def test_nothing_found_is_said(window: Window, room: Room) -> None:
    search(window, room.hub, "nosuchwordanywhere")
    expect(window.page.get_by_text("No message matches.")).to_be_visible()


def test_a_query_that_is_markup_stays_text(window: Window, room: Room) -> None:
    room.post("<img src=x onerror=alert(1)> ferretglow")
    search(window, room.hub, "<img src=x onerror=alert(1)> ferretglow")
    expect(hits(window)).to_contain_text("<img src=x onerror=alert(1)> ferretglow")
    expect(window.page.locator("main img")).to_have_count(0)


def test_an_unreachable_hub_is_reported(make_hub: MakeHub, open_window: OpenWindow) -> None:
    hub = make_hub()
    window = open_window(hub, "#/search")
    expect(field(window)).to_be_focused()
    window.expect_problem(UNREACHABLE)
    hub.stop()
    field(window).fill("anything")
    expect(window.page.locator("main").get_by_role("alert")).to_contain_text("did not answer")


def test_without_an_index_words_are_compared_as_written(
    make_hub: MakeHub, open_window: OpenWindow, tmp_path: Path
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "parley.toml").write_text("[search]\nfts = false\n")
    hub = make_hub(folder)
    room = Room(hub)
    room.post("a prefix->suffix arrow")
    window = open_window(hub)
    search(window, hub, "fix->suf")
    expect(hits(window).locator("mark")).to_have_text(["fix->suf"])
    field(window).fill("refi")
    expect(hits(window).locator("mark")).to_have_text(["refi"])
    expect(window.page.get_by_text("Without a full-text index")).to_be_visible()
