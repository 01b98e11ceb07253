"""A cookie proves a browser, not a page: who may use it is told by ``Origin`` and ``Sec-Fetch-Site``."""

import httpx
import pytest

from tests.hub.browsers import log_in, new_code, own_origin, page_of, stranger
from tests.hub.conftest import MakeHub
from tests.hub.hubs import OpenHub

CHANNELS = "/api/v1/channels"
FOREIGN = ["http://127.0.0.1:1", "http://localhost:7337", "https://127.0.0.1:7337", "http://evil.example", "null", ""]
"""Other ports and names of this machine, another scheme, another site, and pages that hide where they are from."""


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def channels_of(hub: OpenHub) -> list[object]:
    return (await hub.api.get(CHANNELS))["channels"]


async def test_a_change_with_the_cookie_alone_is_refused(hub: OpenHub) -> None:
    async with page_of(hub) as page:
        assert refusal(await page.post(CHANNELS, json={"name": "x"})) == (403, "ORIGIN_FORBIDDEN")
        assert refusal(await page.patch("/api/v1/topics/t", json={"title": "x"})) == (403, "ORIGIN_FORBIDDEN")
    assert await channels_of(hub) == []


@pytest.mark.parametrize("origin", FOREIGN)
async def test_a_change_with_the_cookie_from_any_other_origin_is_refused(hub: OpenHub, origin: str) -> None:
    async with page_of(hub) as page:
        answer = await page.post(CHANNELS, json={"name": "x"}, headers={"Origin": origin})
    assert refusal(answer) == (403, "ORIGIN_FORBIDDEN")
    assert await channels_of(hub) == []


async def test_the_origin_must_have_the_name_that_the_request_is_for(hub: OpenHub) -> None:
    cookie = await log_in(hub)
    port = hub.hub.port
    async with stranger(hub, Cookie=cookie, Host=f"localhost:{port}") as page:
        mixed = await page.post(CHANNELS, json={"name": "x"}, headers={"Origin": f"http://127.0.0.1:{port}"})
        assert refusal(mixed) == (403, "ORIGIN_FORBIDDEN")
        own = await page.post(CHANNELS, json={"name": "x"}, headers={"Origin": f"http://localhost:{port}"})
        assert own.status_code == 201


@pytest.mark.parametrize("site", ["cross-site", "same-site", "SAME-ORIGIN", "", "same-origin, none"])
async def test_a_read_with_the_cookie_that_another_page_asked_for_is_refused(hub: OpenHub, site: str) -> None:
    async with page_of(hub) as page:
        answer = await page.get(CHANNELS, headers={"Sec-Fetch-Site": site})
    assert refusal(answer) == (403, "ORIGIN_FORBIDDEN")


@pytest.mark.parametrize("headers", [{}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}])
async def test_a_read_with_the_cookie_by_our_page_or_a_typed_address_is_answered(
    hub: OpenHub, headers: dict[str, str]
) -> None:
    async with page_of(hub) as page:
        assert (await page.get(CHANNELS, headers=headers)).status_code == 200


async def test_the_token_needs_neither(hub: OpenHub) -> None:
    assert (await hub.api.client.get(CHANNELS, headers={"Sec-Fetch-Site": "cross-site"})).status_code == 200
    assert (await hub.api.client.post(CHANNELS, json={"name": "x"})).status_code == 201


@pytest.mark.parametrize("path", ["/ui/login", "/ui/logout"])
async def test_log_in_and_log_out_are_for_our_page_only(hub: OpenHub, path: str) -> None:
    code = await new_code(hub)
    async with page_of(hub) as page:
        for headers in ({}, *({"Origin": origin} for origin in FOREIGN)):
            answer = await page.post(path, json={"code": code}, headers=headers)
            assert refusal(answer) == (403, "ORIGIN_FORBIDDEN"), headers
            assert "set-cookie" not in answer.headers
        assert (await page.post(path, json={"code": code}, headers=own_origin(hub))).status_code == 200


@pytest.mark.parametrize("name", ["Cookie", "Sec-Fetch-Site", "Origin"])
async def test_a_header_that_decides_may_come_only_once(hub: OpenHub, name: str) -> None:
    cookie = await log_in(hub)
    value = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin", "Origin": hub.url}[name]
    headers = [("Cookie", cookie), ("Sec-Fetch-Site", "same-origin"), ("Origin", hub.url), (name, value)]
    async with stranger(hub) as client:
        answer = await client.get(CHANNELS, headers=headers)
    assert refusal(answer) == (400, "INVALID_INPUT")


async def test_what_is_refused_for_its_origin_uses_up_the_budget_of_strangers(make_hub: MakeHub) -> None:
    hub = await make_hub({"rate_limits": {"enabled": True, "per_connection": 4, "overall": 10}})
    async with page_of(hub) as page:  # the log-in took one
        answers = [await page.post(CHANNELS, json={"name": "x"}) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [403] * 3 + [429] * 2
        assert (await page.get(CHANNELS)).status_code == 200
