"""A topic of 100,000 messages: read in both directions without a gap, a double or a page that grows."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.browsers import Window
from tests.browser.conftest import OpenWindow
from tests.browser.hubs import PageHub
from tests.browser.seeding import long_topic

pytestmark = pytest.mark.timeout(300)

COUNT = 100_000
READ = 1_000
"""Messages read in each direction: many times what the page holds at once."""
ARTICLES_MAX = 300
HEAP_GROWTH_BYTES_MAX = 24 * 1024 * 1024
"""A page that kept what it showed would keep several times this."""

_READ_ON = """
async ({ direction, count }) => {
  const timeline = document.querySelector("[data-testid=timeline]");
  const articles = () => [...timeline.querySelectorAll("article[data-message-id]")];
  const frame = () => new Promise(requestAnimationFrame);
  const inView = () => {
    const view = timeline.getBoundingClientRect();
    return articles().filter((article) => {
      const { top, bottom } = article.getBoundingClientRect();
      return bottom > view.top && top < view.bottom;
    }).map((article) => article.dataset.messageId);
  };
  const read = new Set();
  const deadline = performance.now() + 90000;
  let articlesMost = 0;
  while (read.size < count && performance.now() < deadline) {
    for (const id of inView()) read.add(id);
    articlesMost = Math.max(articlesMost, articles().length);
    timeline.scrollTop += direction * timeline.clientHeight * 0.6;
    await frame();
  }
  return { read: [...read], articlesMost };
}
"""
"""Scrolls a view's height at a time, as a reader does, and notes every message that was really before their eyes."""


@dataclass(frozen=True)
class LongTopic:
    hub: PageHub
    topic_id: str
    ids: list[str]
    """From the oldest; whoever posts adds to it."""

    def place(self, message_id: str) -> int:
        """The number of a message."""
        at = bisect_left(self.ids, message_id)
        assert self.ids[at] == message_id
        return at


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongTopic]:
    folder = tmp_path_factory.mktemp("long")
    topic_id, ids = long_topic(folder, COUNT)
    hub = PageHub(folder)
    hub.start()
    yield LongTopic(hub, topic_id, ids)
    hub.end()


def read_on(window: Window, long: LongTopic, direction: int) -> list[int]:
    """Reads on from where the view is; the numbers of the messages that were seen, in the order of the topic."""
    seen: dict[str, Any] = window.page.evaluate(_READ_ON, {"direction": direction, "count": READ})
    assert seen["articlesMost"] <= ARTICLES_MAX
    shown = [long.place(message_id) for message_id in window.message_ids()]
    assert shown == list(range(shown[0], shown[-1] + 1))
    return sorted(map(long.place, seen["read"]))


def heap_bytes(window: Window) -> int:
    """What the page's scripts hold, after the garbage is taken away."""
    session = window.context.new_cdp_session(window.page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return int(used)


def test_a_long_topic_is_read_in_both_directions(long: LongTopic, open_window: OpenWindow) -> None:
    window = open_window(long.hub, f"#/t/{long.topic_id}")
    expect(window.message(long.ids[-1])).to_be_in_viewport()
    heap_before = heap_bytes(window)

    upwards = read_on(window, long, -1)
    assert upwards == list(range(upwards[0], len(long.ids)))
    assert len(upwards) >= READ
    downwards = read_on(window, long, 1)
    assert downwards == list(range(downwards[0], downwards[-1] + 1))
    assert downwards[-1] > upwards[0] + READ - ARTICLES_MAX

    window.page.get_by_role("button", name="Jump to oldest").click()
    expect(window.message(long.ids[0])).to_be_in_viewport()
    from_the_start = read_on(window, long, 1)
    assert from_the_start[:READ] == list(range(READ))

    middle = COUNT // 2
    window.page.goto(f"{long.hub.url}/ui#/t/{long.topic_id}/m/{long.ids[middle]}")
    expect(window.message(long.ids[middle])).to_be_in_viewport()
    around = read_on(window, long, -1)
    assert around == list(range(around[0], around[-1] + 1))
    assert around[0] < middle - READ + ARTICLES_MAX

    window.page.keyboard.press("Shift+G")
    expect(window.message(long.ids[-1])).to_be_in_viewport()
    assert heap_bytes(window) - heap_before < HEAP_GROWTH_BYTES_MAX


def test_a_long_topic_stays_live_wherever_one_reads(long: LongTopic, open_window: OpenWindow) -> None:
    window = open_window(long.hub, f"#/t/{long.topic_id}/m/{long.ids[COUNT // 3]}")
    target = window.message(long.ids[COUNT // 3])
    expect(target).to_be_in_viewport()
    long.hub.client.edit_message(long.ids[COUNT // 3], "edited far from the end")
    expect(target).to_contain_text("edited far from the end")
    long.ids.append(long.hub.client.send_message(long.topic_id, "news at the end", "builder").message.id)
    jump = window.page.get_by_role("button", name="1 new message")
    jump.click()
    expect(window.message(long.ids[-1])).to_be_in_viewport()
