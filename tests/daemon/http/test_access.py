"""Who may call the daemon: the socket's owner without a token, programs on loopback with one, pages never."""

from collections.abc import AsyncIterator

import pytest

from tests.daemon.served_daemon import PORT, MakeServed, ServedDaemon


async def test_the_socket_asks_for_no_token(served: ServedDaemon) -> None:
    assert (await served.unix.get("/v1/health")).status_code == 200


@pytest.mark.parametrize("path", ["/v1/health", "/v1/version", "/v1/metrics", "/v1/inbox"])
async def test_loopback_asks_for_the_token_on_every_route(served: ServedDaemon, path: str) -> None:
    missing = await served.tcp.get(path)
    wrong = await served.tcp.get(path, headers={"authorization": "Bearer " + "0" * 64})
    assert (missing.status_code, missing.json()["code"]) == (401, "MISSING_AUTH")
    assert (wrong.status_code, wrong.json()["code"]) == (401, "INVALID_AUTH")
    assert (await served.tcp.get(path, headers=served.bearer)).status_code == 200


async def test_health_may_be_opened_and_nothing_else_with_it(make_served: MakeServed) -> None:
    served = await make_served(ipc={"public_health_check": True})
    assert (await served.tcp.get("/v1/health")).status_code == 200
    assert (await served.tcp.get("/v1/version")).status_code == 401


@pytest.mark.parametrize("name", ["token", "access_token", "Local_Token"])
async def test_a_token_in_the_address_is_refused_and_written_down_without_it(served: ServedDaemon, name: str) -> None:
    answer = await served.tcp.get("/v1/health", params={name: served.tokens.current}, headers=served.bearer)
    assert (answer.status_code, answer.json()["code"]) == (400, "TOKEN_IN_QUERY")
    written = served.log.getvalue()
    assert b"token_in_query" in written
    assert served.tokens.current.encode() not in written


async def test_tokens_in_addresses_do_not_fill_the_log(make_served: MakeServed) -> None:
    served = await make_served(ipc={"rate_per_second": 1})
    codes = [(await served.tcp.get("/" + "x" * 10_000, params={"token": "x"})).status_code for _ in range(20)]
    written = served.log.getvalue()
    assert set(codes) == {400, 429}
    assert written.count(b"token_in_query") == codes.count(400)
    assert len(written) < 10_000


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"[::1]:{PORT}", f"localhost:{PORT}", "localhost", "[::1]"])
async def test_loopback_names_are_taken_with_our_port_or_none(served: ServedDaemon, host: str) -> None:
    assert (await served.tcp.get("/v1/health", headers={**served.bearer, "host": host})).status_code == 200
    assert (await served.unix.get("/v1/health", headers={"host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", f"[::2]:{PORT}"])
async def test_other_names_are_refused(served: ServedDaemon, host: str) -> None:
    for client in (served.tcp, served.unix):
        answer = await client.get("/v1/health", headers={**served.bearer, "host": host})
        assert (answer.status_code, answer.json()["code"]) == (403, "HOST_FORBIDDEN")


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_a_page_may_not_call_whatever_its_origin(served: ServedDaemon, method: str) -> None:
    for origin in ("https://evil.example", f"http://127.0.0.1:{PORT}"):
        answer = await served.tcp.request(method, "/v1/health", headers={**served.bearer, "origin": origin})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin"])
async def test_a_page_may_not_call_although_it_has_no_origin(served: ServedDaemon, site: str) -> None:
    for client in (served.tcp, served.unix):
        answer = await client.get("/v1/health", headers={**served.bearer, "sec-fetch-site": site})
        assert (answer.status_code, answer.json()["code"]) == (403, "ORIGIN_FORBIDDEN")
    typed = await served.tcp.get("/v1/health", headers={**served.bearer, "sec-fetch-site": "none"})
    assert typed.status_code == 200


async def test_what_to_do_about_a_refusal_is_said_in_the_daemons_own_words(make_served: MakeServed) -> None:
    served = await make_served(ipc={"rate_per_second": 7})
    refusals = [
        await served.unix.get("/v1/nothing"),
        await served.tcp.get("/v1/health"),
        await served.tcp.get("/v1/health", headers={"authorization": "Bearer wrong"}),
        await served.unix.get("/v1/health", headers={"host": "evil.example"}),
        await served.unix.get("/v1/health", headers={"origin": "http://evil.example"}),
        await served.unix.get("/v1/inbox", headers={"x-parley-session": "0" * 64}),
    ]
    refusals += [await served.unix.get("/v1/nothing") for _ in range(10)]
    served.in_flight.close()
    refusals.append(await served.send())
    told = {answer.json()["code"]: answer.json() for answer in refusals}
    assert set(told) >= {"NOT_FOUND", "MISSING_AUTH", "INVALID_AUTH", "HOST_FORBIDDEN", "ORIGIN_FORBIDDEN"}
    assert "/openapi.json" in told["NOT_FOUND"]["hint"]
    for answer in refusals:
        words = f"{answer.json()['error']} {answer.json()['hint']}"
        assert not any(foreign in words for foreign in ("hub", "workspace", "channel", "parley.toml", "parley ui")), (
            words
        )


async def test_an_unknown_path_and_an_unknown_method_say_so(served: ServedDaemon) -> None:
    assert (await served.unix.get("/v1/nothing")).status_code == 404
    answer = await served.unix.request("DELETE", "/v1/health")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


async def test_a_body_must_be_json_and_is_bounded(make_served: MakeServed) -> None:
    served = await make_served(ipc={"body_bytes_max": 2048})
    large = await served.send(message="x" * 3000)
    assert (large.status_code, large.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
    chunked = await served.unix.post(
        "/v1/send", content=_chunks(b"x" * 3000), headers={"content-type": "application/json"}
    )
    assert chunked.status_code == 413
    plain = await served.unix.post("/v1/send", content=b"{}", headers={"content-type": "text/plain"})
    assert plain.status_code == 415
    for content in (b"{", b"\xff", b"[]", b'{"to": "bob"}', b'{"to": "a\\u0000b", "message": "x"}'):
        answer = await served.unix.post("/v1/send", content=content, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_INPUT")


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data[:1000]
    yield data[1000:]


async def test_too_many_requests_at_once_are_told_to_wait(make_served: MakeServed) -> None:
    served = await make_served(ipc={"requests_max": 1})
    served.in_flight.begin()
    answer = await served.unix.get("/v1/health")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (429, "DAEMON_BUSY", "1")
    served.in_flight.end()
    assert (await served.unix.get("/v1/health")).status_code == 200


async def test_too_many_requests_in_a_second_are_told_to_wait(make_served: MakeServed) -> None:
    served = await make_served(ipc={"rate_per_second": 1})
    codes = {(await served.unix.get("/v1/health")).status_code for _ in range(5)}
    assert codes == {200, 429}


async def test_a_daemon_that_stops_takes_nothing_new(served: ServedDaemon) -> None:
    served.in_flight.close()
    answer = await served.send()
    assert (answer.status_code, answer.json()["code"]) == (503, "SHUTTING_DOWN")
