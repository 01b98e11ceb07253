"""Log-in of the page: a one-time code for a session, what a session opens, and what ends it."""

from pathlib import Path

import httpx
import pytest

import parley
from parley.core.clock import ManualClock
from parley.core.limits import LOGIN_CODE_SECONDS, PAGE_SESSION_SECONDS
from parley.hub.lifecycle import prepare_database
from tests.hub.browsers import log_in, new_code, own_origin, page_of, stranger
from tests.hub.conftest import MakeHub
from tests.hub.hubs import INSTANCE_ID, OpenHub, open_hub, settings_of, workspace_in

SESSION = "/api/v1/ui/session"
CHANNELS = "/api/v1/channels"


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def try_code(hub: OpenHub, code: str) -> httpx.Response:
    async with stranger(hub) as client:
        return await client.post("/ui/login", json={"code": code}, headers=own_origin(hub))


async def test_the_token_buys_a_code_and_the_link_that_holds_it(hub: OpenHub) -> None:
    answer = await hub.api.client.post("/api/v1/ui/code")
    body = answer.json()
    assert body == {
        "code": body["code"],
        "expires_in_seconds": LOGIN_CODE_SECONDS,
        "url": f"{hub.url}/ui#code={body['code']}",
    }
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost:7337", "localhost"), ("localhost", "localhost"), ("[::1]:7337", "[::1]"), ("127.0.0.1", "127.0.0.1")],
)
async def test_the_link_has_the_name_by_which_the_caller_reached_the_hub(
    hub: OpenHub, host: str, expected: str
) -> None:
    body = await hub.api.call("POST", "/api/v1/ui/code", headers={"Host": host})
    assert body["url"] == f"http://{expected}:{hub.hub.port}/ui#code={body['code']}"


TRUSTED = ["parley.example.com", "proxy.lan:8443", "localhost:8000", "[::1]:8000"]


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("parley.example.com", "https://parley.example.com"),
        ("Parley.Example.com", "https://Parley.Example.com"),
        ("proxy.lan:8443", "https://proxy.lan:8443"),
        ("localhost:8000", "http://localhost:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
    ],
)
async def test_under_a_trusted_name_the_link_has_that_name_as_it_is_written(
    make_hub: MakeHub, host: str, origin: str
) -> None:
    hub = await make_hub({"hub": {"trusted_hosts": TRUSTED}})
    body = await hub.api.call("POST", "/api/v1/ui/code", headers={"Host": host})
    assert body["url"] == f"{origin}/ui#code={body['code']}"


async def test_a_trusted_name_changes_no_link_of_another_name(make_hub: MakeHub) -> None:
    hub = await make_hub({"hub": {"trusted_hosts": TRUSTED}})
    body = await hub.api.call("POST", "/api/v1/ui/code", headers={"Host": "localhost"})
    assert body["url"] == f"http://localhost:{hub.hub.port}/ui#code={body['code']}"


async def test_a_cookie_that_is_set_over_https_is_sent_over_https_only(make_hub: MakeHub) -> None:
    hub = await make_hub({"hub": {"trusted_hosts": TRUSTED}})
    host, code = "parley.example.com", await new_code(hub)
    async with stranger(hub, Host=host, Origin=f"https://{host}") as client:
        answers = [await client.post("/ui/login", json={"code": code}), await client.post("/ui/logout")]
    for answer in answers:
        assert answer.status_code == 200
        assert answer.headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict; Path=/; Secure")


async def test_a_cookie_that_is_set_over_http_is_not_secure(make_hub: MakeHub) -> None:
    hub = await make_hub({"hub": {"trusted_hosts": TRUSTED}})
    code = await new_code(hub)
    async with stranger(hub, Host="localhost:8000", Origin="http://localhost:8000") as client:
        answer = await client.post("/ui/login", json={"code": code})
    assert answer.status_code == 200
    assert "Secure" not in answer.headers["set-cookie"]


async def test_a_code_is_exchanged_for_a_session_cookie(hub: OpenHub) -> None:
    answer = await try_code(hub, await new_code(hub))
    assert answer.json() == {"ok": True, "db_id": hub.hub.db_id}
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert cookie.startswith(f"parley_{hub.hub.db_id}=")
    assert attributes == [f"Max-Age={PAGE_SESSION_SECONDS}", "HttpOnly", "SameSite=Strict", "Path=/"]
    assert answer.headers["cache-control"] == "no-store"


async def test_a_code_cannot_be_replayed(hub: OpenHub) -> None:
    code = await new_code(hub)
    assert (await try_code(hub, code)).status_code == 200
    answer = await try_code(hub, code)
    assert refusal(answer) == (401, "LOGIN_CODE_INVALID")
    assert "set-cookie" not in answer.headers
    assert code not in answer.text


async def test_a_code_is_refused_after_five_minutes(hub: OpenHub) -> None:
    in_time, late = await new_code(hub), await new_code(hub)
    hub.clock.advance(LOGIN_CODE_SECONDS - 1)
    assert (await try_code(hub, in_time)).status_code == 200
    hub.clock.advance(1)
    assert refusal(await try_code(hub, late)) == (401, "LOGIN_CODE_INVALID")


async def test_the_code_of_another_hub_and_of_an_earlier_run_are_refused(make_hub: MakeHub, tmp_path: Path) -> None:
    one, other = await make_hub(), await make_hub()
    assert refusal(await try_code(other, await new_code(one))) == (401, "LOGIN_CODE_INVALID")
    async with open_hub(tmp_path / "restarted") as first:
        code = await new_code(first)
    again = await make_hub(folder=tmp_path / "restarted")
    assert refusal(await try_code(again, code)) == (401, "LOGIN_CODE_INVALID")


@pytest.mark.parametrize("body", [{}, {"code": 5}, {"code": ""}, {"code": "x" * 201}, {"code": None}, []])
async def test_what_is_no_code_is_invalid_input(hub: OpenHub, body: object) -> None:
    async with stranger(hub) as client:
        answer = await client.post("/ui/login", json=body, headers=own_origin(hub))
    assert refusal(answer) == (400, "INVALID_INPUT")


async def test_attempts_to_log_in_use_up_the_budget_of_strangers_and_nobody_elses(make_hub: MakeHub) -> None:
    hub = await make_hub({"rate_limits": {"enabled": True, "per_connection": 5, "overall": 6}})
    code = await new_code(hub)
    answers = [await try_code(hub, f"guess-{number}") for number in range(7)]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 2
    assert (await try_code(hub, code)).status_code == 429
    assert (await hub.api.client.get(CHANNELS)).status_code == 200
    hub.clock.advance(1)
    assert (await try_code(hub, code)).status_code == 200


async def test_a_session_tells_the_page_where_it_is(hub: OpenHub) -> None:
    async with page_of(hub) as page:
        answer = await page.get(SESSION)
    assert answer.json() == {
        "db_id": hub.hub.db_id,
        "instance_id": INSTANCE_ID,
        "workspace_name": hub.workspace.root.name,
        "version": parley.__version__,
    }
    assert answer.headers["cache-control"] == "no-store"


async def test_a_session_reads_and_writes_as_the_token_does(hub: OpenHub) -> None:
    async with page_of(hub) as page:
        made = await page.post(CHANNELS, json={"name": "general"}, headers=own_origin(hub))
        assert made.status_code == 201
        assert [channel["name"] for channel in (await page.get(CHANNELS)).json()["channels"]] == ["general"]
        body = {"channel_id": made.json()["channel"]["id"], "title": "t"}
        topic = (await page.post("/api/v1/topics", json=body, headers=own_origin(hub))).json()["topic"]["id"]
        renamed = await page.patch(f"/api/v1/topics/{topic}", json={"title": "new"}, headers=own_origin(hub))
        assert renamed.json()["topic"]["title"] == "new"


@pytest.mark.parametrize("path", ["/api/v1/ui/code", "/api/v1/token/rotate"])
async def test_a_session_can_neither_prolong_itself_nor_lock_programs_out(hub: OpenHub, path: str) -> None:
    token = hub.token
    async with page_of(hub) as page:
        assert refusal(await page.post(path, headers=own_origin(hub))) == (401, "MISSING_AUTH")
    assert hub.token == token


async def test_open_reads_do_not_make_a_stranger_look_logged_in(make_hub: MakeHub) -> None:
    hub = await make_hub({"hub": {"open_reads": True}})
    async with stranger(hub) as client:
        assert (await client.get(CHANNELS)).status_code == 200
        assert refusal(await client.get(SESSION)) == (401, "MISSING_AUTH")
    async with page_of(hub) as page:
        assert (await page.get(SESSION)).status_code == 200


async def test_without_a_cookie_authentication_is_missing_and_with_a_wrong_one_invalid(hub: OpenHub) -> None:
    name = hub.hub.page.sessions.cookie_name
    cookie = await log_in(hub)
    cases = {
        "a=1": "MISSING_AUTH",
        f"{name}=": "MISSING_AUTH",
        f"{name}=nonsense": "INVALID_AUTH",
        cookie[:-1]: "INVALID_AUTH",
        cookie + "0": "INVALID_AUTH",
        cookie.replace(".", ".9", 1): "INVALID_AUTH",
    }
    for cookies, code in cases.items():
        async with stranger(hub, Cookie=cookies) as client:
            assert refusal(await client.get(SESSION)) == (401, code), cookies
            assert refusal(await client.post(CHANNELS, json={"name": "x"}, headers=own_origin(hub))) == (401, code)
    async with stranger(hub) as client:
        assert refusal(await client.get(SESSION)) == (401, "MISSING_AUTH")


async def test_a_session_ends_after_30_days(hub: OpenHub) -> None:
    async with page_of(hub) as page:
        hub.clock.advance(PAGE_SESSION_SECONDS - 1)
        assert (await page.get(SESSION)).status_code == 200
        hub.clock.advance(1)
        assert refusal(await page.get(SESSION)) == (401, "INVALID_AUTH")


async def test_two_hubs_in_one_browser_do_not_disturb_each_other(make_hub: MakeHub, tmp_path: Path) -> None:
    prepare_database(workspace_in(tmp_path / "other"), settings_of(), ManualClock())
    one, other = await make_hub(), await make_hub(folder=tmp_path / "other")
    first, second = await log_in(one), await log_in(other)
    both = f"{first}; {second}"
    assert first.partition("=")[0] != second.partition("=")[0]
    for hub in (one, other):
        async with stranger(hub, Cookie=both) as page:
            assert (await page.get(SESSION)).json()["db_id"] == hub.hub.db_id
    value = first.partition("=")[2]
    async with stranger(other, Cookie=f"{other.hub.page.sessions.cookie_name}={value}") as page:
        assert refusal(await page.get(SESSION)) == (401, "INVALID_AUTH"), "a session of another hub"


async def test_a_session_outlives_a_restart_of_the_hub(make_hub: MakeHub, tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_hub(tmp_path / "restarted", clock=clock) as first:
        cookie = await log_in(first)
    again = await make_hub(folder=tmp_path / "restarted", clock=clock)
    async with stranger(again, Cookie=cookie) as page:
        assert (await page.get(SESSION)).status_code == 200


async def test_a_rotation_of_the_token_ends_sessions_after_the_grace_period(make_hub: MakeHub) -> None:
    hub = await make_hub({"hub": {"token_grace_seconds": 60.0}})
    async with page_of(hub) as page:
        await hub.api.call("POST", "/api/v1/token/rotate")
        hub.clock.advance(59)
        assert (await page.get(SESSION)).status_code == 200
        hub.clock.advance(1)
        assert refusal(await page.get(SESSION)) == (401, "INVALID_AUTH")


async def test_a_log_out_clears_the_cookie_with_or_without_a_session(hub: OpenHub) -> None:
    cleared = f"{hub.hub.page.sessions.cookie_name}=; Max-Age=0; HttpOnly; SameSite=Strict; Path=/"
    async with page_of(hub) as page, stranger(hub) as nobody:
        for client in (page, nobody):
            answer = await client.post("/ui/logout", headers=own_origin(hub))
            assert (answer.status_code, answer.json()) == (200, {"ok": True})
            assert answer.headers["set-cookie"] == cleared


async def test_the_token_wins_over_the_cookie_and_a_wrong_token_is_not_made_up_for_by_one(hub: OpenHub) -> None:
    cookie = await log_in(hub)
    wrong = {"Cookie": cookie, "Authorization": "Bearer wrong"}
    async with stranger(hub) as client:
        assert refusal(await client.get(CHANNELS, headers=wrong)) == (401, "INVALID_AUTH")
        right = {"Cookie": "nonsense", "Authorization": f"Bearer {hub.token}"}
        assert (await client.post(CHANNELS, json={"name": "x"}, headers=right)).status_code == 201


async def test_neither_codes_nor_sessions_nor_the_token_are_logged_or_answered(make_hub: MakeHub) -> None:
    hub = await make_hub({"log": {"requests": "all"}})
    code = await new_code(hub)
    answers = [await try_code(hub, code), await try_code(hub, code)]
    cookie = answers[0].headers["set-cookie"].partition(";")[0]
    async with stranger(hub, Cookie=cookie) as page:
        answers += [await page.get(SESSION), await page.get(f"/ui?code={code}"), await page.get(f"/nowhere?c={code}")]
    assert len(hub.log.entries) >= len(answers)
    value = cookie.partition("=")[2]
    for secret in (code, value, hub.token):
        assert secret not in str(hub.log.entries)
        assert not [answer for answer in answers if secret in answer.text]
        assert not [answer for answer in answers[1:] if secret in str(answer.headers)]
