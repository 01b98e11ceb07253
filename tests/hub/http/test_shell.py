"""What every request passes: Host and Origin, path and method, the token, the body. And what every answer carries."""

import json
import re
from typing import Any

import httpx
import pytest

from tests.hub.conftest import MakeHub
from tests.hub.hubs import INSTANCE_ID, PORT, OpenHub

FIVE_HEADERS = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "x-xss-protection": "1; mode=block",
    "content-security-policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; "
        "connect-src 'self' ws://localhost:* ws://127.0.0.1:*; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
}
CHANNELS = "/api/v1/channels"


async def send(hub: OpenHub, method: str = "GET", path: str = CHANNELS, **options: Any) -> httpx.Response:
    return await hub.api.client.request(method, path, **options)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/health", {}, 200),
        ("GET", CHANNELS, {}, 200),
        ("GET", "/metrics", {}, 200),
        ("POST", CHANNELS, {}, 415),
        ("GET", "/nowhere", {}, 404),
        ("PUT", CHANNELS, {}, 405),
        ("GET", CHANNELS, {"Authorization": "Bearer wrong"}, 401),
        ("GET", CHANNELS, {"Host": "evil.example"}, 403),
    ],
)
async def test_every_answer_carries_the_five_security_headers_exactly_and_who_answers(
    hub: OpenHub, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = await send(hub, method, path, headers=headers)
    assert answer.status_code == status
    assert {name: answer.headers[name] for name in FIVE_HEADERS} == FIVE_HEADERS
    assert answer.headers["x-instance-id"] == INSTANCE_ID
    assert answer.headers["x-protocol-version"] == "v1"
    assert re.fullmatch("[0-9a-f-]{36}", answer.headers["x-request-id"])


@pytest.mark.parametrize("status", [200, 404, 401])
async def test_a_request_id_is_echoed(hub: OpenHub, status: int) -> None:
    headers = {"X-Request-ID": "run-7/step.3"}
    if status == 401:
        headers["Authorization"] = ""
    answer = await send(hub, path=CHANNELS if status != 404 else "/nowhere", headers=headers)
    assert (answer.status_code, answer.headers["x-request-id"]) == (status, "run-7/step.3")


@pytest.mark.parametrize("asked", ["", "x" * 129, "a b", '"><script>', "a;rm"])
async def test_a_request_id_that_could_do_harm_is_replaced(hub: OpenHub, asked: str) -> None:
    answer = await send(hub, headers={"X-Request-ID": asked})
    assert re.fullmatch("[0-9a-f-]{36}", answer.headers["x-request-id"])


async def test_two_requests_have_two_ids(hub: OpenHub) -> None:
    first, second = await send(hub), await send(hub)
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/api/v1", "/api/v1/", "/api/v1/channels/", "/api/v2/channels", "/API/V1/channels"]
)
async def test_an_unknown_path_is_404_as_json(hub: OpenHub, path: str) -> None:
    answer = await send(hub, path=path)
    assert refusal(answer) == (404, "NOT_FOUND")
    assert answer.json()["details"] == {"path": path}


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", CHANNELS, "GET, POST"),
        ("PUT", "/api/v1/messages/msg_1", "GET, PATCH"),
        ("POST", "/health", "GET"),
        ("OPTIONS", CHANNELS, "GET, POST"),
        ("GET", "/api/v1/_ping", "POST"),
        ("PATCH", "/api/v1/topics/t/attachments", "GET, POST"),
    ],
)
async def test_a_wrong_method_is_405_as_json_and_names_the_right_ones(
    hub: OpenHub, method: str, path: str, allow: str
) -> None:
    answer = await send(hub, method, path)
    assert refusal(answer) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == allow
    assert answer.json()["details"] == {"allow": allow.split(", ")}


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
async def test_a_body_that_is_not_declared_as_json_is_415(hub: OpenHub, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    answer = await send(hub, "POST", content=b'{"name":"a"}', headers=headers)
    assert refusal(answer) == (415, "INVALID_INPUT")
    assert answer.json()["error"] == "Content-Type must be application/json"


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
async def test_json_may_be_declared_in_any_usual_way(hub: OpenHub, content_type: str) -> None:
    answer = await send(hub, "POST", content=b'{"name":"a"}', headers={"Content-Type": content_type})
    assert answer.status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"5",
        b'"x"',
        b"{",
        b'{"name":}',
        b'{"name":"\xff"}',
        b'{"name":"\\ud800"}',
        b"[" * 20_000,
        b"{}x",
    ],
)
async def test_a_body_that_is_not_the_asked_object_is_400(hub: OpenHub, body: bytes) -> None:
    answer = await send(hub, "POST", content=body, headers={"Content-Type": "application/json"})
    assert refusal(answer) == (400, "INVALID_INPUT")


async def test_a_bad_field_is_named_without_its_content(hub: OpenHub) -> None:
    answer = await send(hub, "POST", json={"name": "secret-words\n"})
    assert refusal(answer) == (400, "INVALID_INPUT")
    assert answer.json()["details"] == {"field": "name"}
    assert "secret-words" not in answer.text


NAME_WORDS = "must not be blank or contain control characters"
ID_WORDS = "must be 1 to 64 of A-Z, a-z, 0-9, _ and -"


@pytest.mark.parametrize(
    ("path", "body", "field", "words"),
    [
        (CHANNELS, {"name": " "}, "name", NAME_WORDS),
        ("/api/v1/topics", {"channel_id": "a b", "title": "t"}, "channel_id", ID_WORDS),
        (
            "/api/v1/messages",
            {"topic_id": "t", "sender": "ann", "content_raw": "", "client_message_id": "a b"},
            "client_message_id",
            "must be printable ASCII without blanks",
        ),
        (
            "/api/v1/topics/t/attachments",
            {"kind": "k", "value_json": {}, "key": "\n"},
            "key",
            "must not contain control characters",
        ),
        (CHANNELS, {}, "name", "must be given"),
        ("/api/v1/topics", {"channel_id": "c"}, "title", "must be given"),
    ],
)
async def test_a_person_is_told_in_words_what_is_wrong_with_which_field(
    hub: OpenHub, path: str, body: dict[str, Any], field: str, words: str
) -> None:
    answer = await send(hub, "POST", path, json=body)
    assert answer.json() == {
        "error": f"{field}: {words}",
        "code": "INVALID_INPUT",
        "details": {"field": field},
    }


class TestSize:
    """413: by what is declared and by what really comes."""

    most = 4096

    @pytest.fixture
    async def small(self, make_hub: MakeHub) -> OpenHub:
        return await make_hub({"limits": {"body_bytes_max": self.most}})

    def body(self, size: int) -> bytes:
        frame = len(json.dumps({"name": "a", "filler": ""}))
        return json.dumps({"name": "a", "filler": "x" * (size - frame)}).encode()

    async def test_a_body_of_exactly_the_limit_passes(self, small: OpenHub) -> None:
        answer = await send(small, "POST", content=self.body(self.most), headers={"Content-Type": "application/json"})
        assert answer.status_code == 201

    async def test_a_declared_size_above_the_limit_is_413_before_anything_is_read(self, small: OpenHub) -> None:
        async def never() -> Any:
            raise AssertionError("the body was read")

        headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {small.token}".encode())]
        headers += [(b"content-length", str(self.most + 1).encode()), (b"content-type", b"application/json")]
        scope = {
            "method": "POST",
            "path": CHANNELS,
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
        }
        answer = await small.hub.app.respond(scope, never)
        assert answer.status == 413
        assert json.loads(answer.body) == {
            "error": "Payload too large (max 4KB)",
            "code": "PAYLOAD_TOO_LARGE",
            "details": {"limit_bytes": self.most},
        }

    @pytest.mark.parametrize("chunk", [1000, 100_000])
    async def test_a_body_that_turns_out_too_large_is_413(self, small: OpenHub, chunk: int) -> None:
        data = self.body(self.most + 1)

        async def chunks() -> Any:
            for start in range(0, len(data), chunk):
                yield data[start : start + chunk]

        answer = await send(small, "POST", content=chunks(), headers={"Content-Type": "application/json"})
        assert refusal(answer) == (413, "PAYLOAD_TOO_LARGE")


class TestAuth:
    """What carries data needs the token."""

    ENDPOINTS = (
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/api/v1/status"),
        ("GET", CHANNELS),
        ("GET", "/api/v1/channels/ch_1/topics"),
        ("GET", "/api/v1/topics/t"),
        ("GET", "/api/v1/topics/t/attachments"),
        ("GET", "/api/v1/messages?topic_id=t"),
        ("GET", "/api/v1/messages/msg_1"),
        ("GET", "/api/v1/events"),
        ("GET", "/api/v1/search?query=x"),
        ("POST", "/api/v1/_ping"),
        ("POST", "/api/v1/token/rotate"),
        ("POST", CHANNELS),
        ("POST", "/api/v1/topics"),
        ("PATCH", "/api/v1/topics/t"),
        ("POST", "/api/v1/messages"),
        ("PATCH", "/api/v1/messages/msg_1"),
        ("POST", "/api/v1/topics/t/attachments"),
    )

    @pytest.mark.parametrize(("method", "path"), ENDPOINTS)
    async def test_without_the_token_nothing_is_read_or_written(self, hub: OpenHub, method: str, path: str) -> None:
        answer = await send(hub, method, path, headers={"Authorization": ""})
        assert refusal(answer) == (401, "MISSING_AUTH")
        assert answer.json() == {"error": "Unauthorized", "code": "MISSING_AUTH"}
        assert answer.headers["www-authenticate"] == "Bearer"

    @pytest.mark.parametrize(
        "header", ["", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "{token}", "Token {token}", "Bearer{token}"]
    )
    async def test_no_usable_header_is_missing_auth(self, hub: OpenHub, header: str) -> None:
        answer = await send(hub, headers={"Authorization": header.format(token=hub.token)})
        assert refusal(answer) == (401, "MISSING_AUTH")

    @pytest.mark.parametrize(
        "header", ["Bearer x", "Bearer {token}x", "Bearer {upper}", "Bearer {half}", "Bearer {token} {token}"]
    )
    async def test_a_wrong_token_is_invalid_auth(self, hub: OpenHub, header: str) -> None:
        token = hub.token
        text = header.format(token=token, upper=token.upper() + "A", half=token[:32])
        assert refusal(await send(hub, headers={"Authorization": text})) == (401, "INVALID_AUTH")

    @pytest.mark.parametrize("header", ["Bearer {token}", "bearer {token}", "BEARER   {token}  "])
    async def test_the_scheme_is_case_insensitive(self, hub: OpenHub, header: str) -> None:
        answer = await send(hub, headers={"Authorization": header.format(token=hub.token)})
        assert answer.status_code == 200

    async def test_refused_callers_are_counted(self, hub: OpenHub) -> None:
        await send(hub, headers={"Authorization": "Bearer wrong"})
        assert "parley_auth_failures_total 1.0" in (await send(hub, path="/metrics")).text

    async def test_open_reads_opens_gets_and_nothing_else(self, make_hub: MakeHub) -> None:
        hub = await make_hub({"hub": {"open_reads": True}})
        for method, path in self.ENDPOINTS:
            answer = await send(hub, method, path, headers={"Authorization": ""})
            assert (answer.status_code == 401) == (method != "GET"), (method, path, answer.status_code)

    async def test_a_rotated_token_replaces_the_old_one_after_the_grace_period(self, make_hub: MakeHub) -> None:
        hub = await make_hub({"hub": {"token_grace_seconds": 60}})
        old = hub.token
        assert await hub.api.call("POST", "/api/v1/token/rotate") == {"rotated": True, "grace_seconds": 60.0}
        assert hub.workspace.token.read_text().strip() == hub.token != old
        assert (await send(hub)).status_code == 200
        hub.clock.advance(61)
        assert refusal(await send(hub)) == (401, "INVALID_AUTH")
        assert (await send(hub, headers={"Authorization": f"Bearer {hub.token}"})).status_code == 200


class TestHostAndOrigin:
    """A page that the user's browser has open must not reach the hub."""

    @pytest.mark.parametrize(
        "host", [f"127.0.0.1:{PORT}", "127.0.0.1", f"localhost:{PORT}", "LOCALHOST", f"[::1]:{PORT}"]
    )
    async def test_a_loopback_name_is_us(self, hub: OpenHub, host: str) -> None:
        assert (await send(hub, headers={"Host": host})).status_code == 200

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            f"evil.example:{PORT}",
            f"127.0.0.1:{PORT + 1}",
            "127.0.0.1.evil.example",
            "0.0.0.0",
            "",
            "localhost:",
            "a@127.0.0.1",
        ],
    )
    @pytest.mark.parametrize("path", ["/health", CHANNELS, "/nowhere"])
    async def test_another_name_is_403_everywhere(self, hub: OpenHub, host: str, path: str) -> None:
        answer = await send(hub, path=path, headers={"Host": host})
        assert refusal(answer) == (403, "HOST_FORBIDDEN")

    async def test_our_own_origin_is_allowed(self, hub: OpenHub) -> None:
        answer = await send(hub, headers={"Origin": f"http://127.0.0.1:{PORT}"})
        assert answer.status_code == 200

    @pytest.mark.parametrize(
        "origin",
        [
            "http://evil.example",
            "null",
            f"https://127.0.0.1:{PORT}",
            "http://127.0.0.1",
            f"http://127.0.0.1:{PORT + 1}",
            f"http://localhost:{PORT}",
            "",
        ],
    )
    async def test_another_origin_is_403_also_with_the_token(self, hub: OpenHub, origin: str) -> None:
        answer = await send(hub, "POST", json={"name": "a"}, headers={"Origin": origin})
        assert refusal(answer) == (403, "ORIGIN_FORBIDDEN")
        assert (await hub.api.get(CHANNELS))["channels"] == []


@pytest.mark.parametrize("path", ["/health", CHANNELS])
@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "Idempotency-Key", "Content-Length"])
async def test_a_header_that_decides_is_not_given_twice(hub: OpenHub, path: str, name: str) -> None:
    own = {"Host": f"127.0.0.1:{PORT}", "Origin": f"http://127.0.0.1:{PORT}", "Authorization": f"Bearer {hub.token}"}
    headers = [*((key, value) for key, value in own.items() if key != name), *[(name, own.get(name, "1"))] * 2]
    answer = await send(hub, path=path, headers=headers)
    assert refusal(answer) == (400, "INVALID_INPUT")
    assert answer.json() == {
        "error": f"{name} is given more than once",
        "code": "INVALID_INPUT",
        "details": {"field": name},
    }


async def test_a_header_that_decides_nothing_may_be_given_twice(hub: OpenHub) -> None:
    assert (await send(hub, headers=[("Accept", "a/b"), ("Accept", "c/d")])).status_code == 200


class TestQuery:
    """Query parameters."""

    @pytest.mark.parametrize("path", ["/api/v1/messages?topic_id=t&", "/api/v1/search?query=x&", "/api/v1/events?"])
    @pytest.mark.parametrize(
        "limit", ["abc", "-2", "0", "1001", "99999999", "1.5", "", "٣", "1" * 30, "+1", "1e3", "%31x"]
    )
    async def test_a_bad_limit_is_400_and_named(self, hub: OpenHub, path: str, limit: str) -> None:
        answer = await send(hub, path=f"{path}limit={limit}")
        assert refusal(answer) == (400, "INVALID_INPUT")
        assert answer.json()["details"] == {"field": "limit"}

    async def test_a_parameter_given_twice_is_400(self, hub: OpenHub) -> None:
        answer = await send(hub, path="/api/v1/messages?topic_id=a&topic_id=b")
        assert refusal(answer) == (400, "INVALID_INPUT")

    @pytest.mark.parametrize("query", ["query=%ff", "query=%c3%28"])
    async def test_a_query_string_that_is_not_utf8_is_400(self, hub: OpenHub, query: str) -> None:
        assert refusal(await send(hub, path=f"/api/v1/search?{query}")) == (400, "INVALID_INPUT")

    async def test_unknown_parameters_are_ignored(self, hub: OpenHub) -> None:
        assert (await send(hub, path=f"{CHANNELS}?colour=red&limit=abc")).status_code == 200


async def test_ping_answers_with_or_without_a_body(hub: OpenHub) -> None:
    pong = {"pong": True, "instance_id": INSTANCE_ID}
    assert await hub.api.call("POST", "/api/v1/_ping") == pong
    assert await hub.api.call("POST", "/api/v1/_ping", {}) == pong
    assert await hub.api.call("POST", "/api/v1/_ping", {"echo": {"a": [1, None]}}) == {**pong, "echo": {"a": [1, None]}}


async def test_the_log_has_a_line_for_each_problem_without_its_query_string(hub: OpenHub) -> None:
    await send(hub, path="/nowhere?token=secret", headers={"X-Request-ID": "r-1"})
    (line,) = [entry for entry in hub.log.entries if entry["event"] == "request"]
    assert {name: line[name] for name in ("method", "path", "status", "code", "request_id")} == {
        "method": "GET",
        "path": "/nowhere",
        "status": 404,
        "code": "NOT_FOUND",
        "request_id": "r-1",
    }
    assert "secret" not in str(line)


@pytest.mark.parametrize(("wanted", "lines"), [("all", 2), ("problems", 1), ("none", 0)])
async def test_the_log_of_requests_is_a_setting(make_hub: MakeHub, wanted: str, lines: int) -> None:
    hub = await make_hub({"log": {"requests": wanted}})
    await send(hub)
    await send(hub, path="/nowhere")
    assert len([entry for entry in hub.log.entries if entry["event"] == "request"]) == lines


async def test_a_fault_of_ours_is_500_with_the_request_id_and_one_line_in_the_log(hub: OpenHub) -> None:
    """The store is closed under a running hub: no rule expects that."""
    await hub.hub.store.close(10)
    answer = await send(hub, path="/api/v1/search?query=x", headers={"X-Request-ID": "r-9"})
    assert refusal(answer) == (500, "INTERNAL_ERROR")
    assert answer.json() == {"error": "Internal error", "code": "INTERNAL_ERROR", "details": {"request_id": "r-9"}}
    (line,) = [entry for entry in hub.log.entries if entry["event"] == "request_failed"]
    assert line["request_id"] == "r-9"


async def test_what_is_not_http_is_none_of_the_shells_business(hub: OpenHub) -> None:
    async def never(*_: Any) -> Any:
        raise AssertionError("the shell spoke")

    await hub.hub.app({"type": "lifespan"}, never, never)
