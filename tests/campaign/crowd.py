"""More feeds than a hub serves: as many as the limit are served, the rest are refused with 503, none is half open."""

import asyncio
from pathlib import Path

from bench.load.feed import Subscriber, Tally
from bench.load.hub import Hub
from bench.load.peer import UnexpectedReply
from tests.campaign.report import Report

LIMIT = 100
CLIENTS = 300
DELIVERY_SECONDS = 60.0
CONFIG = "[websocket]\nconnections_max = {limit}\nhello_seconds = 60\n"
"""A machine that is busy with all of them at once may take a while to let the last one say hello."""


async def crowd(folder: Path, *, clients: int = CLIENTS, limit: int = LIMIT, seed: int) -> Report:
    """Control: a hub whose limit is large enough for everybody."""
    report = Report("crowd", seed)
    report.violations = await _try(folder / "limited", clients, served=limit, limit=limit)
    report.runs = clients
    report.facts = {"clients": clients, "limit": limit}
    report.control = await _try(folder / "open", clients, served=limit, limit=clients)
    return report


async def _try(place: Path, clients: int, *, served: int, limit: int) -> list[str]:
    """What is wrong when that many ask for a feed at once and ``served`` are to get one."""
    with Hub(place, config=CONFIG.format(limit=limit)) as hub:
        topics = await hub.make_topics("crowd", "everyone")
        (latest,) = (await hub.ask("GET", "/api/v1/events?tail=1"))["events"]
        tally = Tally()
        attempts = [hub.subscribe(tally, after=latest["event_id"]) for _ in range(clients)]
        results = await asyncio.gather(*attempts, return_exceptions=True)
        feeds = [result for result in results if isinstance(result, Subscriber)]
        refusals = [result for result in results if not isinstance(result, Subscriber)]
        problems = [f"{len(feeds)} feeds are served where {served} were to be"] if len(feeds) != served else []
        problems += [f"a feed was refused with {refusal!r}" for refusal in refusals if not _is_clean(refusal)]
        if not problems:
            problems = await _deliver(hub, topics[0], tally, feeds)
        for feed in feeds:
            feed.close()
    return problems


def _is_clean(refusal: BaseException) -> bool:
    return isinstance(refusal, UnexpectedReply) and " 503 " in str(refusal).splitlines()[0]


async def _deliver(hub: Hub, topic_id: str, tally: Tally, feeds: list[Subscriber]) -> list[str]:
    """Each served feed gets the next event, and one that leaves makes room for another."""
    body = {"topic_id": topic_id, "sender": "speaker", "content_raw": "hello, everyone"}
    await hub.ask("POST", "/api/v1/messages", body)
    try:
        await asyncio.wait_for(tally.reaches(len(feeds)), DELIVERY_SECONDS)
    except TimeoutError:
        return [f"{tally.total} of {len(feeds)} feeds got the event"]
    feeds.pop().close()
    async with asyncio.timeout(DELIVERY_SECONDS):
        while True:  # the hub learns of the leaving from the socket, a moment later
            try:
                feeds.append(await hub.subscribe(Tally(), after=0))
            except UnexpectedReply:
                continue
            return []
