"""Feeds of the page: opened by its cookie, from our own origin only, and closed when the session ends."""

import asyncio

import pytest

from parley.core.clock import ManualClock, SystemClock
from parley.core.limits import PAGE_SESSION_SECONDS
from tests.hub.browsers import log_in, own_origin, stranger
from tests.hub.conftest import MakeHub
from tests.hub.feed.clients import Refused, feed, upgrade
from tests.hub.feed.frames import PING, PONG
from tests.hub.hubs import OpenHub


@pytest.fixture
async def hub(make_server: MakeHub) -> OpenHub:
    return await make_server()


async def refusal(hub: OpenHub, path: str = "/ws", **headers: str) -> tuple[int, str]:
    with pytest.raises(Refused) as refused:
        await upgrade(hub, path, headers)
    assert hub.hub.feeds_open == 0
    return refused.value.status, refused.value.body["code"]


async def test_the_cookie_and_our_own_origin_open_a_feed(hub: OpenHub) -> None:
    async with feed(hub, path="/ws", headers={"Cookie": await log_in(hub), **own_origin(hub)}) as page:
        await page.hello()
        await hub.api.channel()
        assert (await page.event())["name"] == "channel.created"


async def test_the_cookie_without_an_origin_opens_none(hub: OpenHub) -> None:
    assert await refusal(hub, Cookie=await log_in(hub)) == (403, "ORIGIN_FORBIDDEN")


async def test_the_cookie_from_any_other_origin_opens_none(hub: OpenHub) -> None:
    cookie = await log_in(hub)
    port = hub.hub.port
    for origin in ("http://127.0.0.1:1", f"http://localhost:{port}", f"https://127.0.0.1:{port}", "null", ""):
        assert await refusal(hub, Cookie=cookie, Origin=origin) == (403, "ORIGIN_FORBIDDEN"), origin


async def test_a_wrong_cookie_is_answered_with_401(hub: OpenHub) -> None:
    cookie = await log_in(hub)
    origin = own_origin(hub)
    assert await refusal(hub, Cookie=cookie[:-1], **origin) == (401, "INVALID_AUTH")
    assert await refusal(hub, Cookie="a=1", **origin) == (401, "MISSING_AUTH")
    assert await refusal(hub, Cookie=f"{cookie}\r\nCookie: {cookie}", **origin) == (400, "INVALID_INPUT")
    assert "parley_auth_failures_total 2.0" in hub.hub.metrics.render().decode()


async def test_a_wrong_token_is_not_made_up_for_by_a_cookie(hub: OpenHub) -> None:
    cookie = await log_in(hub)
    assert await refusal(hub, "/ws?token=wrong", Cookie=cookie, **own_origin(hub)) == (401, "INVALID_AUTH")


async def test_code_4401_ends_a_feed_of_the_page_after_the_grace_period_of_a_rotated_token(
    make_server: MakeHub,
) -> None:
    hub = await make_server({"hub": {"token_grace_seconds": 0.1}}, clock=SystemClock())
    origin = own_origin(hub)
    async with feed(hub, path="/ws", headers={"Cookie": await log_in(hub), **origin}) as outdated:
        await outdated.hello()
        await hub.api.call("POST", "/api/v1/token/rotate")
        async with stranger(hub) as client:
            code = (await client.post("/api/v1/ui/code", headers={"Authorization": f"Bearer {hub.token}"})).json()
            answer = await client.post("/ui/login", json={"code": code["code"]}, headers=origin)
        renewed_cookie = answer.headers["set-cookie"].partition(";")[0]
        async with feed(hub, path="/ws", headers={"Cookie": renewed_cookie, **origin}) as renewed:
            await renewed.hello()
            closing = await outdated.closing()
            assert (closing.close_code, closing.close_reason) == (4401, "The session is no longer valid")
            renewed.send(PING, b"still here")
            assert await renewed.frame() == (PONG, b"still here")


async def test_code_4401_ends_a_feed_of_the_page_when_its_session_is_over(make_server: MakeHub) -> None:
    clock = ManualClock()
    hub = await make_server({"websocket": {"ping_seconds": 1.0}}, clock=clock)
    async with feed(hub, path="/ws", headers={"Cookie": await log_in(hub), **own_origin(hub)}) as page:
        clock.advance(PAGE_SESSION_SECONDS)
        assert (await page.closing()).close_code == 4401


async def test_a_log_out_ends_the_feeds_of_all_windows_of_the_browser_and_no_other(hub: OpenHub) -> None:
    mine, anothers = await log_in(hub), await log_in(hub)
    origin = own_origin(hub)
    async with (
        feed(hub, path="/ws", headers={"Cookie": mine, **origin}) as one,
        feed(hub, path="/ws", headers={"Cookie": mine, **origin}) as two,
        feed(hub, path="/ws", headers={"Cookie": anothers, **origin}) as other,
        feed(hub) as program,
    ):
        await asyncio.gather(*(each.hello() for each in (one, two, other, program)))
        async with stranger(hub, Cookie=mine, **origin) as client:
            assert (await client.post("/ui/logout")).status_code == 200
        for ended in (one, two):
            closing = await ended.closing()
            assert (closing.close_code, closing.close_reason) == (4401, "Logged out")
        for alive in (other, program):
            alive.send(PING, b"still here")
            assert await alive.frame() == (PONG, b"still here")
