"""The stream of events: resumed by the number of an event, bounded, and honest about what it left out."""

import asyncio
from typing import Any

import pytest

from parley.client.daemon import StreamedEvent, parse_events
from parley.daemon.feed import Feed, Follower
from parley.daemon.inbox.events import append_event, prune_events
from parley.daemon.inbox.receive import Opened, Received, SealedMessage, receive
from tests.daemon.served_daemon import BOB, MakeServed, ServedDaemon
from tests.daemon.world import event, opens, push

LATER = 4_102_444_800_000
"""A time that no upkeep takes for old."""


async def arrive(
    served: ServedDaemon, number: int, meta: dict[str, Any] | None = None, text: str | None = None
) -> Received:
    def opened(message: SealedMessage) -> Opened | None:
        found = opens(message)
        return None if found is None else Opened(found.body, meta or {})

    received = await served.daemon.store.write_inbox(
        lambda db: receive(
            db,
            push(number, f"m-{number}", text or f"text {number}", sender=BOB),
            opened,
            mesh_id="mesh_team",
            recipient_id="mem_team",
            row_id=f"in_{number}",
            now_ms=LATER + number,
        )
    )
    served.daemon.feed.publish([received.event] if received.event else [])
    return received


async def followed(served: ServedDaemon, *requests: "asyncio.Task[Any]") -> None:
    """Waits until the daemon's log is followed for each request, or has refused one."""
    async with asyncio.timeout(30):
        # The daemon tells nobody of this.
        while len(served.daemon.feed) < len(requests) and not any(each.done() for each in requests):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def read(served: ServedDaemon, count: int, **request: Any) -> list[StreamedEvent]:
    """The first so many events of a stream, which ends because the daemon closes it."""
    answer = asyncio.create_task(served.unix.get("/v1/events", **request))
    await followed(served, answer)
    served.daemon.feed.close()
    events = list(parse_events(iter((await answer).text.split("\n"))))
    assert len(events) >= count
    return events


async def test_a_stream_resumes_after_the_event_that_its_reader_had_last(served: ServedDaemon) -> None:
    first = await arrive(served, 1)
    await arrive(served, 2)
    assert first.event is not None
    events = await read(served, 1, headers={"last-event-id": str(first.event.event_id)})
    messages = [event for event in events if event.kind == "message"]
    assert [event.data["body"] for event in messages] == ["text 2"]
    assert messages[0].data["client_message_id"] == "m-2"
    assert messages[0].id is not None
    assert messages[0].id > first.event.event_id


async def test_a_stream_shows_one_mesh_when_asked_to(make_served: MakeServed) -> None:
    served = await make_served("team", "other")
    await arrive(served, 1)
    events = await read(served, 0, params={"after": "0", "mesh": "other"})
    assert [event for event in events if event.kind == "message"] == []


@pytest.mark.parametrize("cursor", ["x", "-1", "999999", "²", "9" * 5_000])
async def test_a_cursor_that_is_none_is_refused(served: ServedDaemon, cursor: str) -> None:
    answer = await served.unix.get("/v1/events", headers={b"last-event-id": cursor.encode("latin-1")})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_INPUT")


async def test_a_cursor_whose_events_were_forgotten_is_refused_with_what_is_left(served: ServedDaemon) -> None:
    for number in range(1, 4):
        await served.daemon.store.write_inbox(lambda db, at=number: append_event(db, "system", {}, now_ms=LATER + at))
    await served.daemon.store.write_inbox(lambda db: prune_events(db, before_ms=LATER + 3))
    answer = await served.unix.get("/v1/events", headers={"last-event-id": "1"})
    assert (answer.status_code, answer.json()["code"]) == (410, "CURSOR_EXPIRED")


async def test_one_stream_too_many_is_refused(make_served: MakeServed) -> None:
    served = await make_served(ipc={"streams_max": 1})
    follower = served.daemon.feed.follow()
    answer = await served.unix.get("/v1/events")
    assert (answer.status_code, answer.json()["code"]) == (429, "TOO_MANY_STREAMS")
    served.daemon.feed.leave(follower)


async def test_a_follower_that_falls_behind_is_told_once() -> None:
    feed = Feed(streams_max=2, queue_max=2)
    follower = feed.follow()
    assert await _woken(feed, follower, 2) is False
    assert await _woken(feed, follower, 3) is True
    assert await _woken(feed, follower, 1) is False
    with pytest.raises(TimeoutError):
        await follower.wait(0.001)
    feed.close()
    assert not await follower.wait(30)


async def _woken(feed: Feed, follower: Follower, count: int) -> bool:
    feed.publish([event(number) for number in range(count)])
    assert await follower.wait(30)
    return follower.caught_up()


def test_comments_between_events_are_passed_over() -> None:
    lines = [
        ": connected",
        "",
        "id: 7",
        "event: message",
        'data: {"a": 1}',
        "",
        ": keepalive",
        "",
        "event: lagged",
        "data: {}",
        "",
    ]
    assert list(parse_events(iter(lines))) == [StreamedEvent(7, "message", {"a": 1}), StreamedEvent(None, "lagged", {})]
