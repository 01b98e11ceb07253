"""The page in a real browser: opening a short topic and a very long one, and reading upwards in the long one.

The browser's own counters tell what a load or a screen costs in script and in layout. Loads start with an empty cache.
What a long topic must not do is cost more than a short one, or more the further somebody has read.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import Sample, figure, ratios
from bench.load.chromium import Chromium, Tab
from bench.load.http import check_success
from bench.load.hub import Hub, content
from bench.load.peer import closed_loop
from bench.measure import CONNECTIONS
from bench.plan import Plan

SHORT = 100
PARTS = 6
"""The way up is measured in so many parts; the last is compared with the first."""
SETTLE_MS = 1_000
"""After the first messages: for what the page loads behind them."""
LOAD_RATIOS = ("first_message_ms", "cpu_ms", "script_ms", "kilobytes")
SCREEN_RATIOS = ("cpu_ms", "script_ms", "layout_ms", "nodes", "heap_mb")
WARM_UP_SCREENS = 30
"""Until the page holds as many messages as it ever does."""
_FIRST_MESSAGE = """
(() => {
  const observer = new MutationObserver(() => {
    if (document.querySelector("article[data-message-id]") === null) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.firstMessageMs = performance.now(); }));
  });
  observer.observe(document, { childList: true, subtree: true });
})();
"""
_LOADED = """
new Promise((done) => setTimeout(() => {
  const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  const bytes = all.reduce((sum, entry) => sum + entry.transferSize, 0);
  done({ first_message_ms: window.firstMessageMs, requests: all.length, kilobytes: bytes / 1000 });
}, %d))
"""
_SCROLL = """
(async () => {
  const timeline = document.querySelector('[data-testid="timeline"]');
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  let waited = 0;
  for (let left = %d * timeline.clientHeight; left > 0; ) {
    const before = timeline.scrollTop;
    timeline.scrollTop = before - timeline.clientHeight;
    left -= before - timeline.scrollTop;
    waited = timeline.scrollTop < before ? 0 : waited + 1;
    if (waited > 1000) throw new Error("the page shows nothing older");
    await frame();
    await frame();
  }
})()
"""


async def page(hub: Hub, program: str, plan: Plan) -> dict[str, Any]:
    """Fills two topics, then lets a browser look at them."""
    short, long = await hub.make_topics("page", "short", "long")
    for topic_id, count in ((short, SHORT), (long, plan.page)):
        peers = await hub.connect(CONNECTIONS)
        await closed_loop(peers, iter(hub.messages(topic_id, count, telling)), check_success)
        for peer in peers:
            peer.close()
    link = (await hub.ask("POST", "/api/v1/ui/code"))["url"]
    return await asyncio.to_thread(_look, link, program, short, long, plan)


def telling(number: int) -> str:
    """Messages as agents write them: mostly plain, some with a list, some with code."""
    text = content(number)
    if number % 5 == 1:
        return f"**Step {number}**\n\n- {text[:60]}\n- see `src/part_{number % 97}.py`\n- {text[60:120]}"
    if number % 5 == 3:
        return f"{text[:80]}\n\n```python\ndef step_{number}(state: State) -> State:\n    return state.next()\n```"
    return text[: 40 + number * 37 % 160]


def _look(link: str, program: str, short: str, long: str, plan: Plan) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="parley-bench-browser-", ignore_cleanup_errors=True) as profile,
        Chromium(program, Path(profile)) as browser,
    ):
        tab = browser.open_tab()
        tab.open(link, ready="document.querySelector('nav') !== null")
        tab.call("Network.enable")
        tab.call("Network.setCacheDisabled", {"cacheDisabled": True})
        tab.call("Page.addScriptToEvaluateOnNewDocument", {"source": _FIRST_MESSAGE})
        page_url = link.partition("#")[0]
        brief, endless = [], []
        _load(tab, page_url, short)  # compiles and draws for the first time
        for _ in range(plan.repeat):
            brief.append({"messages": SHORT, **_load(tab, page_url, short)})
            sample = _load(tab, page_url, long)
            endless.append({"messages": plan.page, **sample, **ratios(sample, brief[-1], LOAD_RATIOS)})
        _scroll(tab, WARM_UP_SCREENS)
        parts = [_scroll(tab, plan.page_screens // PARTS) for _ in range(PARTS)]
    last = {**parts[-1], **ratios(parts[-1], parts[0], SCREEN_RATIOS)}
    return {
        "page_load_short": figure("page_load_short", brief),
        "page_load_long": figure("page_load_long", endless),
        "page_scroll_first": figure("page_scroll_first", parts[:1]),
        "page_scroll_last": figure("page_scroll_last", [last]),
    }


def _load(tab: Tab, page_url: str, topic_id: str) -> Sample:
    """Opens the topic as from a link, with nothing cached."""
    tab.open("about:blank", ready="true")
    tab.call("Performance.disable")
    tab.call("Performance.enable")  # counts from here, also if another process draws the page
    before = tab.metrics()
    tab.open(f"{page_url}#/t/{topic_id}", ready="window.firstMessageMs !== undefined")
    loaded = tab.evaluate(_LOADED % SETTLE_MS)
    return {name: round(value, 1) for name, value in loaded.items()} | _cost(before, tab.metrics(), 1)


def _scroll(tab: Tab, screens: int) -> Sample:
    """Reads so many screens upwards, as fast as they come."""
    before, start = tab.metrics(), time.perf_counter()
    tab.evaluate(_SCROLL % screens)
    seconds = time.perf_counter() - start
    cost = _cost(before, tab.metrics(), screens)
    tab.call("HeapProfiler.collectGarbage")
    after = tab.metrics()
    return {
        "screens": screens,
        "screens_per_second": round(screens / seconds, 1),
        **cost,
        "nodes": after["Nodes"],
        "heap_mb": round(after["JSHeapUsedSize"] / 1e6, 2),
    }


def _cost(before: dict[str, float], after: dict[str, float], by: int) -> Sample:
    """Times of the page's main thread: its CPU time is what other people's load disturbs least."""
    spent = {name: (after[name] - before[name]) * 1e3 / by for name in after if name.endswith(("Duration", "Time"))}
    return {
        "cpu_ms": round(spent["ThreadTime"], 2),
        "script_ms": round(spent["ScriptDuration"], 2),
        "layout_ms": round(spent["LayoutDuration"] + spent["RecalcStyleDuration"], 2),
    }
