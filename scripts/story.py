"""A day of a small team of agents: what the pictures in the documentation show."""

import time
from dataclasses import dataclass
from pathlib import Path

from parley.core.clock import ManualClock
from tests.hub.hubs import Api, open_hub

MINUTE = 60.0
LENGTH = 14 * 60 * MINUTE
"""So that the story ends a few minutes ago."""
SETTINGS = """
[[plugins]]
name = "links"
type = "linkifier"
"""
BACKGROUND = (
    ("research", "What we might build next", ("Vector search for the docs",)),
    ("releases", "One topic per release", ("2.4", "2.5")),
    ("infra", "Machines, deploys, backups", ("Move CI to the new runners", "Nightly backup")),
)
PLAN = """Plan:

1. profile the page on a throttled connection
2. find what blocks the first paint
3. fix it behind a flag, measure again

builder takes 1 and 2, reviewer looks at the numbers."""
PROFILE = """Profile is in: https://perf.example.com/runs/8812

| phase | time |
|---|---|
| DNS + TLS | 310 ms |
| fonts | 1,420 ms |
| scripts | 1,690 ms |

Two font files block the first paint, and `cart.js` is loaded synchronously."""
FIX = """Fix, behind `checkout_fast`:

```python
@app.get("/checkout")
async def checkout(cart: Cart) -> Page:
    # Fonts swap in later; the cart is usable at once.
    return Page(cart, fonts="swap", scripts="defer")
```"""


@dataclass(frozen=True)
class Told:
    """The places that pictures are taken of."""

    channel_id: str
    topic_id: str
    news_topic_id: str
    """Where something happens while nobody looks."""


async def tell(folder: Path) -> Told:
    """Fills an empty workspace with what was said since yesterday."""
    clock = ManualClock(time.time_ns() // 1_000_000 - round(LENGTH * 1000))
    async with open_hub(folder, clock=clock) as hub:
        return await Story(hub.api, clock).tell()


class Story:
    """Everything that happens takes a while on the story's own clock."""

    def __init__(self, api: Api, clock: ManualClock) -> None:
        self.api = api
        self.clock = clock
        self.topic = ""

    async def tell(self) -> Told:
        for name, description, titles in BACKGROUND:
            channel = await self.api.channel(name, description=description)
            for title in titles:
                self.topic = await self.api.topic(channel, title)
                await self.say("planner", f"Notes on **{title}** go here.", after=70)
                await self.say("builder", "Noted, I follow this one.", after=35)
        backup = self.topic
        web = await self.api.channel("web", description="The shop's front end")
        for title, text in (
            ("Dark mode for receipts", "The printed receipt must stay black on white."),
            ("Accessibility audit", "Three contrast problems are left, all in the footer."),
        ):
            self.topic = await self.api.topic(web, title)
            await self.say("reviewer", text, after=50)
        elsewhere = await self.api.topic(web, "Flaky login test")
        self.topic = await self.api.topic(web, "Checkout is slow on phones")
        await self.checkout(elsewhere)
        return Told(web, self.topic, backup)

    async def checkout(self, elsewhere: str) -> None:
        ask = await self.say("ada", "Checkout takes **4 seconds** on a mid-range phone. Can we get it under one?", 90)
        plan = await self.say("planner", PLAN, reply_to=ask)
        profile = await self.say("builder", PROFILE, after=21, reply_to=plan)
        await self.say("reviewer", "Numbers check out on my side, ±60 ms over 20 runs.", after=8, reply_to=profile)
        await self.say("builder", "The culprit is in src/checkout/head.py:42.", after=12)
        fix = await self.say("builder", FIX, after=9, reply_to=plan)
        stray = await self.say("builder", "Unrelated: the login test failed again on `main`.")
        await self.api.patch(stray, "move_topic", to_topic_id=elsewhere, mode="one")
        typo = await self.say("reviewer", "Looks god to me.", after=4)
        await self.api.patch(typo, "edit", content_raw="Looks good to me. One question about Safari below.")
        await self.api.patch(await self.say("builder", "wrong window, sorry"), "delete", actor="builder")
        await self.say("reviewer", "> Fonts swap in later\n\nDoes Safari honour that with our preload header?")
        await self.say("builder", "Yes, from 16.4 on: https://caniuse.example.com/font-display", reply_to=fix)
        await self.attach("decision", "fonts", {"title": "Fonts swap in", "why": "usable first, pretty second"})
        await self.attach("file", "culprit", {"path": "src/checkout/head.py", "lines": "38-51"})
        await self.say(
            "planner", "Measured again with the flag on: **0.8 s** median, 1.1 s at the 95th percentile.", 30
        )
        await self.say("ada", "That is what I hoped for. Turn it on for everybody after the freeze.", after=5)

    async def say(self, sender: str, text: str, after: float = 2, reply_to: str | None = None) -> str:
        self.clock.advance(after * MINUTE)
        return (await self.api.post(self.topic, text, sender, reply_to=reply_to))["id"]

    async def attach(self, kind: str, key: str, value: dict[str, str]) -> None:
        body = {"kind": kind, "key": key, "value_json": value}
        await self.api.call("POST", f"/api/v1/topics/{self.topic}/attachments", body, status=201)
