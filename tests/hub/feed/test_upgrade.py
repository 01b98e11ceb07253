"""Who gets a feed: every refusal of an upgrade is an HTTP answer with a code, and never half a connection."""

from contextlib import AsyncExitStack

import pytest

from tests.hub.conftest import MakeHub
from tests.hub.feed.clients import Refused, feed, until, upgrade
from tests.hub.hubs import INSTANCE_ID, OpenHub


@pytest.fixture
async def hub(make_server: MakeHub) -> OpenHub:
    return await make_server()


async def test_defect_12_an_upgrade_without_a_token_is_answered_with_http_401_missing_auth(hub: OpenHub) -> None:
    with pytest.raises(Refused) as refused:
        await upgrade(hub, "/ws")
    assert (refused.value.status, refused.value.body["code"]) == (401, "MISSING_AUTH")
    assert hub.hub.feeds_open == 0


async def test_defect_12_an_upgrade_with_a_wrong_token_is_answered_with_http_401_invalid_auth(hub: OpenHub) -> None:
    for token in ("wrong", "%FF%FE", "a" * 5_000):
        with pytest.raises(Refused) as refused:
            await upgrade(hub, f"/ws?token={token}")
        assert (refused.value.status, refused.value.body["code"]) == (401, "INVALID_AUTH")
        assert token not in str(refused.value.body)


async def test_the_token_may_come_in_the_authorization_header_or_in_the_query(hub: OpenHub) -> None:
    async with feed(hub, path="/ws", headers={"Authorization": f"Bearer {hub.token}"}) as by_header:
        assert (await by_header.hello())["latest_event_id"] == hub.hub.feed.latest
    async with feed(hub, path=f"/ws?x=1&token={hub.token}") as by_query:
        assert (await by_query.hello())["latest_event_id"] == hub.hub.feed.latest


async def test_an_upgrade_with_two_tokens_in_the_query_is_answered_with_400(hub: OpenHub) -> None:
    good = f"token={hub.token}"
    for query in (f"{good}&token=bad", f"token=bad&{good}", f"{good}&{good}", f"token=&{good}", f"{good}&x=1&token="):
        with pytest.raises(Refused) as refused:
            await upgrade(hub, f"/ws?{query}")
        assert (refused.value.status, refused.value.body["details"]) == (400, {"field": "token"}), query
    assert hub.hub.feeds_open == 0


async def test_an_upgrade_of_another_path_is_answered_with_404(hub: OpenHub) -> None:
    with pytest.raises(Refused) as refused:
        await upgrade(hub, f"/elsewhere?token={hub.token}")
    assert (refused.value.status, refused.value.body["code"]) == (404, "NOT_FOUND")


async def test_an_upgrade_for_another_host_is_answered_with_403_host_forbidden(hub: OpenHub) -> None:
    for host in ("evil.example.com", f"evil.example.com:{hub.hub.port}", "127.0.0.1:1", ""):
        with pytest.raises(Refused) as refused:
            await upgrade(hub, headers={"Host": host})
        assert (refused.value.status, refused.value.body["code"]) == (403, "HOST_FORBIDDEN"), host


async def test_an_upgrade_from_another_origin_is_answered_with_403_origin_forbidden(hub: OpenHub) -> None:
    for origin in ("http://evil.example.com", "null", f"https://127.0.0.1:{hub.hub.port}", "http://127.0.0.1:1"):
        with pytest.raises(Refused) as refused:
            await upgrade(hub, headers={"Origin": origin})
        assert (refused.value.status, refused.value.body["code"]) == (403, "ORIGIN_FORBIDDEN"), origin


async def test_an_upgrade_with_two_hosts_or_two_origins_or_two_tokens_is_answered_with_400(hub: OpenHub) -> None:
    own = f"127.0.0.1:{hub.hub.port}"
    for name, value in (("Host", own), ("Origin", f"http://{own}"), ("Authorization", f"Bearer {hub.token}")):
        with pytest.raises(Refused) as refused:
            await upgrade(hub, headers={name: f"{value}\r\n{name}: {value}"})
        assert (refused.value.status, refused.value.body["details"]) == (400, {"field": name})


async def test_the_hubs_own_origin_is_welcome(hub: OpenHub) -> None:
    async with feed(hub, headers={"Origin": f"http://127.0.0.1:{hub.hub.port}"}) as own:
        assert own.headers["x-instance-id"] == INSTANCE_ID


async def test_a_refusal_carries_the_security_headers_and_the_request_id(hub: OpenHub) -> None:
    with pytest.raises(Refused) as refused:
        await upgrade(hub, "/ws", {"X-Request-ID": "mine-1"})
    assert refused.value.headers["x-request-id"] == "mine-1"
    assert refused.value.headers["x-content-type-options"] == "nosniff"
    assert refused.value.headers["content-type"] == "application/json"


async def test_a_feed_begins_with_the_headers_of_every_answer(hub: OpenHub) -> None:
    async with feed(hub, headers={"X-Request-ID": "mine-1"}) as opened:
        assert opened.headers["x-request-id"] == "mine-1"
        for name, value in hub.hub.app.common_headers:
            assert opened.headers[name.decode()] == value.decode()


async def test_an_upgrade_that_is_not_of_the_protocol_is_answered_with_4xx(hub: OpenHub) -> None:
    for headers in ({"Sec-WebSocket-Version": "12"}, {"Sec-WebSocket-Key": "too short"}):
        with pytest.raises(Refused) as refused:
            await upgrade(hub, headers=headers)
        assert refused.value.status in (400, 426), headers
    assert hub.hub.feeds_open == 0


async def test_an_upgrade_that_cannot_be_understood_is_answered_and_not_left_hanging(hub: OpenHub) -> None:
    for headers in ({"X-Long": "a" * 20_000}, {f"X-{number}": "a" for number in range(200)}):
        with pytest.raises(Refused) as refused:
            await upgrade(hub, headers=headers)
        assert refused.value.status in (400, 431), next(iter(headers))
    assert hub.hub.feeds_open == 0


async def test_an_upgrade_during_a_stop_is_answered_with_503_shutting_down(hub: OpenHub) -> None:
    hub.hub.in_flight.close()
    with pytest.raises(Refused) as refused:
        await upgrade(hub)
    assert (refused.value.status, refused.value.body["code"]) == (503, "SHUTTING_DOWN")
    assert int(refused.value.headers["retry-after"]) >= 1


async def test_a_plain_get_of_the_feeds_path_is_answered_like_any_unknown_path(hub: OpenHub) -> None:
    assert (await hub.api.get("/ws", status=404))["code"] == "NOT_FOUND"


async def test_a_feed_that_leaves_makes_room_for_another_at_the_limit(make_server: MakeHub) -> None:
    hub = await make_server({"websocket": {"connections_max": 2}})
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(feed(hub))
        await stack.enter_async_context(feed(hub))
        with pytest.raises(Refused) as refused:
            await upgrade(hub)
        assert (refused.value.status, refused.value.body["details"]["reason"]) == (503, "connection_limit")
        assert int(refused.value.headers["retry-after"]) >= 1
        first.close()
        await until(lambda: hub.hub.feeds_open == 1)
        async with feed(hub) as third:
            await third.hello()
