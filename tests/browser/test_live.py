"""Windows that stay true while others work: every change, a lost connection, a hub that was killed or moved."""

import threading

from playwright.sync_api import expect

from bench.load.ports import lasting_port
from tests.browser.browsers import UNREACHABLE, Window
from tests.browser.conftest import MakeHub, OpenWindow
from tests.browser.hubs import PageHub, Room


def test_a_second_window_sees_what_happens(hub: PageHub, room: Room, open_window: OpenWindow) -> None:
    other = room.topic("elsewhere")
    kept = room.post("kept as it is")
    window = open_window(hub, f"#/t/{room.topic_id}")
    expect(window.message(kept)).to_be_visible()

    created = room.post("fresh from the press")
    message = window.message(created)
    expect(message).to_contain_text("fresh from the press")
    room.client.edit_message(created, "changed since")
    expect(message).to_contain_text("changed since")
    expect(message).to_have_attribute("data-version", "2")
    room.client.add_attachment(room.topic_id, "note", {"text": "look here"}, key="n1")
    expect(window.attachments).to_contain_text("look here")
    room.client.retopic_message(created, other)
    expect(message).to_have_count(0)
    expect(window.page.get_by_test_id("departure")).to_contain_text("1 message was moved to elsewhere")
    room.client.retopic_message(created, room.topic_id)
    expect(message).to_be_visible()
    room.client.delete_message(created, "reviewer")
    expect(message).to_contain_text("Deleted by reviewer")
    room.client.rename_topic(room.topic_id, "under another title")
    expect(window.page.get_by_role("heading", name="under another title")).to_be_visible()
    assert window.message_ids() == [kept, created]


def test_new_messages_do_not_move_the_view_of_who_reads_further_up(window: Window, room: Room) -> None:
    ids = [room.post(f"number {number}\n\nand a second line") for number in range(40)]
    window.page.goto(f"{room.hub.url}/ui#/t/{room.topic_id}/m/{ids[10]}")
    expect(window.message(ids[10])).to_be_in_viewport()
    before = window.message(ids[10]).bounding_box()
    news = [room.post(f"news {number}") for number in range(5)]
    jump = window.page.get_by_role("button", name="5 new messages")
    expect(jump).to_be_visible()
    assert window.message(ids[10]).bounding_box() == before
    jump.click()
    expect(window.message(news[-1])).to_be_in_viewport()
    after = room.post("and one for who follows")
    expect(window.message(after)).to_be_in_viewport()


def test_a_killed_hub_is_noticed_and_what_it_said_meanwhile_comes_once(
    make_hub: MakeHub, open_window: OpenWindow
) -> None:
    hub = make_hub()
    port = hub.server.port
    room = Room(hub)
    others = [room.post(f"before {number}") for number in range(5)]
    window = open_window(hub, f"#/t/{room.topic_id}")
    watcher = open_window(hub, "#/status")
    for each in (window, watcher):
        each.expect_problem(UNREACHABLE)
    expect(window.message(others[-1])).to_be_visible()

    badge = watcher.sidebar.locator(f'a[data-topic-id="{room.topic_id}"]').get_by_role("img")

    talk = Talk(room)
    talk.go_on(20)
    talk.reached()
    expect(badge).to_have_attribute("aria-label", "20 unread")  # from here on the watcher counts along with the feed
    talk.go_on(60)
    hub.kill()
    expect(window.page.get_by_test_id("connection")).to_contain_text("Connection lost")
    hub.start("--port", str(port))
    talk.reached()
    talk.go_on(60)
    hub.kill()
    hub.start("--port", str(port))
    talk.reached()
    last = room.post("the last word")
    expect(window.message(last)).to_be_visible()
    expect(window.page.get_by_test_id("connection")).to_be_hidden()
    assert window.message_ids() == room.ids()
    expect(badge).to_have_attribute("aria-label", f"{len(room.ids()) - len(others)} unread")


def test_what_happened_while_the_hub_was_away_is_caught_up(make_hub: MakeHub, open_window: OpenWindow) -> None:
    hub = make_hub()
    port = hub.server.port
    room = Room(hub)
    edited, deleted, moved = (room.post(text) for text in ("to be edited", "to be deleted", "to be moved"))
    other = room.topic("elsewhere")
    window = open_window(hub, f"#/t/{room.topic_id}")
    window.expect_problem(UNREACHABLE)
    expect(window.message(moved)).to_be_visible()
    hub.stop()
    expect(window.page.get_by_test_id("connection")).to_contain_text("Connection lost")
    hub.start("--port", str(lasting_port()))  # where the page does not look
    room.client.edit_message(edited, "edited meanwhile")
    room.client.delete_message(deleted, "reviewer")
    room.client.retopic_message(moved, other)
    created = room.post("created meanwhile")
    hub.stop()
    hub.start("--port", str(port))
    expect(window.message(created)).to_be_visible()
    expect(window.message(edited)).to_contain_text("edited meanwhile")
    expect(window.message(deleted)).to_contain_text("Deleted by reviewer")
    expect(window.message(moved)).to_have_count(0)


def test_a_hub_that_restarts_elsewhere_is_explained(make_hub: MakeHub, open_window: OpenWindow) -> None:
    hub = make_hub()
    room = Room(hub)
    window = open_window(hub, f"#/t/{room.topic_id}")
    window.expect_problem(UNREACHABLE)
    banner = window.page.get_by_test_id("connection")
    hub.stop()
    hub.start("--port", str(lasting_port()))
    while "parley ui" not in banner.inner_text():
        retry_now(window)
    expect(banner).to_contain_text("restarted on another port")
    window.origins.add(hub.url)
    window.page.goto(hub.link())
    expect(window.sidebar).to_be_visible()
    window.page.goto(f"{hub.url}/ui#/t/{room.topic_id}")
    expect(window.message(room.post("here again"))).to_be_visible()


def retry_now(window: Window) -> None:
    """Presses the button that a person who does not want to wait would press, once it is there."""
    button = window.page.get_by_test_id("connection").get_by_role("button", name="Try now")
    button.wait_for()
    button.click()


class Talk:
    """Somebody who posts what is asked for, through whatever happens to the hub meanwhile."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._posting = threading.Thread()

    def go_on(self, count: int) -> None:
        """Posts so many more, one after the other; returns at once."""
        self._posting = threading.Thread(target=self._post, args=(count,), daemon=True)
        self._posting.start()

    def reached(self) -> None:
        """Waits until all of them are acknowledged."""
        self._posting.join(60)
        assert not self._posting.is_alive()

    def _post(self, count: int) -> None:
        for number in range(count):
            self._room.post(f"word {number}", "builder")
