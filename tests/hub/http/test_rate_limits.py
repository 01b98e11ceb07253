"""Rate limits and the other settings of ``parley.toml`` that a caller notices."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

import parley
from parley.core.settings import setting_specs
from parley.workspace.config import load_settings
from tests.hub.conftest import MakeHub
from tests.hub.hubs import OpenHub

CHANNELS = "/api/v1/channels"


async def burst(hub: OpenHub, count: int, agent: str | None = None, port: int = 1) -> list[httpx.Response]:
    """Requests of one connection, or of one named agent."""
    transport = httpx.ASGITransport(app=hub.hub.app, client=("127.0.0.1", port))
    headers = dict(hub.api.client.headers) | ({"X-Parley-Agent": agent} if agent else {})
    async with httpx.AsyncClient(transport=transport, base_url=hub.url, headers=headers) as client:
        return [await client.get(CHANNELS) for _ in range(count)]


def allowed(answers: list[httpx.Response]) -> int:
    assert {answer.status_code for answer in answers} <= {200, 429}
    return sum(answer.status_code == 200 for answer in answers)


def limited(**limits: int) -> Mapping[str, Mapping[str, Any]]:
    return {"rate_limits": {"enabled": True, **limits}}


async def test_part_x_the_limit_of_a_connection_is_100_a_second(make_hub: MakeHub) -> None:
    hub = await make_hub(limited())
    assert allowed(await burst(hub, 200)) == 100


async def test_part_x_the_limit_of_all_together_is_1000_a_second(make_hub: MakeHub) -> None:
    hub = await make_hub(limited())
    assert sum([allowed(await burst(hub, 60, port=port)) for port in range(20)]) == 1_000


async def test_appendix_c_many_connections_do_not_pass_the_limit_of_all(make_hub: MakeHub) -> None:
    hub = await make_hub(limited(per_connection=5, overall=12))
    assert [allowed(await burst(hub, 5, port=port)) for port in range(4)] == [5, 5, 2, 0]


async def test_callers_without_the_token_share_a_limit_and_use_up_nobody_elses(make_hub: MakeHub) -> None:
    hub = await make_hub(limited(per_connection=5, overall=6))
    transport = httpx.ASGITransport(app=hub.hub.app)
    async with httpx.AsyncClient(transport=transport, base_url=hub.url) as stranger:
        answers = [await stranger.get(CHANNELS, headers={"X-Parley-Agent": str(number)}) for number in range(8)]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 3
    assert allowed(await burst(hub, 5)) == 5


async def test_part_x_the_limit_is_there_again_after_a_second(make_hub: MakeHub) -> None:
    hub = await make_hub(limited(per_connection=5))
    assert allowed(await burst(hub, 6)) == 5
    hub.clock.advance(1.0)
    assert allowed(await burst(hub, 6)) == 5


async def test_waiting_as_told_helps(make_hub: MakeHub) -> None:
    hub = await make_hub(limited(per_connection=4))
    refused = (await burst(hub, 5))[-1]
    hub.clock.advance(refused.json()["details"]["retry_after"])
    assert allowed(await burst(hub, 1)) == 1


async def test_defect_8_agents_that_name_themselves_have_budgets_of_their_own(make_hub: MakeHub) -> None:
    hub = await make_hub(limited(per_connection=3))
    for agent in ("ann", "bob"):
        assert allowed(await burst(hub, 5, agent=agent)) == 3
    assert allowed(await burst(hub, 5, agent="ann", port=2)) == 0


async def test_the_headers_count_down_and_reset_is_in_unix_seconds(make_hub: MakeHub) -> None:
    hub = await make_hub(limited(per_connection=3))
    answers = await burst(hub, 4)
    assert [answer.headers["x-ratelimit-limit"] for answer in answers] == ["3"] * 4
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
    now = hub.clock.now_ms() // 1000
    assert all(now <= int(answer.headers["x-ratelimit-reset"]) <= now + 1 for answer in answers)
    assert answers[-1].headers["retry-after"] == "1"
    assert "parley_rate_limited_total 1.0" in hub.hub.metrics.render().decode()


async def test_refusals_of_the_token_carry_the_headers_too_and_take_from_the_budget(make_hub: MakeHub) -> None:
    hub = await make_hub(limited(per_connection=2))
    statuses = [
        (await hub.api.client.get(CHANNELS, headers={"Authorization": "Bearer x"})).status_code for _ in range(3)
    ]
    assert statuses == [401, 401, 429]


async def test_health_is_never_limited(make_hub: MakeHub) -> None:
    hub = await make_hub(limited(per_connection=1, overall=1))
    answers = [await hub.api.client.get("/health") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert not any(name.startswith("x-ratelimit") for name in answers[0].headers)


async def test_without_limits_there_are_no_headers(make_hub: MakeHub) -> None:
    hub = await make_hub({"rate_limits": {"enabled": False, "per_connection": 1}})
    answers = await burst(hub, 5)
    assert allowed(answers) == 5
    assert "x-ratelimit-limit" not in answers[0].headers


async def test_defect_8_the_limits_of_the_file_are_the_limits_of_the_hub(make_hub: MakeHub, tmp_path: Any) -> None:
    (tmp_path / "parley.toml").write_text("[rate_limits]\nper_connection = 7\n[limits]\npage_max = 9\n")
    settings = load_settings(tmp_path / "parley.toml")
    hub = await make_hub(
        {
            "rate_limits": {"enabled": True, "per_connection": settings.rate_limits.per_connection},
            "limits": {"page_max": settings.limits.page_max},
        }
    )
    assert allowed(await burst(hub, 9)) == 7
    assert (await hub.api.get("/api/v1/events", limit=10, status=400))["error"] == "limit must be between 1 and 9"


def test_every_setting_of_the_file_is_read_somewhere() -> None:
    """No option that does nothing: each key's name stands in the source outside of its definition."""
    source = Path(parley.__file__).parent
    text = "\n".join(path.read_text() for path in source.rglob("*.py") if path.name != "settings.py")
    unused = [spec.name for spec in setting_specs() if f".{spec.key}" not in text]
    assert unused == []


@pytest.mark.parametrize("metric", ["parley_requests_total", "parley_events_total", "parley_event_id"])
async def test_metrics_tell_of_what_happened(hub: OpenHub, metric: str) -> None:
    await hub.api.channel()
    text = (await hub.api.client.get("/metrics")).text
    assert f"\n{metric}" in text
