"""The files of the page: all of them, nothing else, and never an outdated one."""

from pathlib import Path

import httpx
import pytest

import parley.hub
from parley.hub.page_assets import CONTENT_TYPES, SHELL_NAME, page_assets
from tests.hub.browsers import stranger
from tests.hub.conftest import MakeHub
from tests.hub.hubs import DEADLINE_SECONDS, OpenHub

FOLDER = Path(parley.hub.__file__).parent / "page"
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", ["/ui", "/ui/"])
async def test_the_shell_is_open_to_all_and_never_stored(hub: OpenHub, path: str) -> None:
    async with stranger(hub) as client:
        answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.content == (FOLDER / SHELL_NAME).read_bytes()


def test_the_shell_is_what_existing_clients_look_for() -> None:
    text = (FOLDER / SHELL_NAME).read_text()
    assert "<!DOCTYPE html>" in text
    assert '<div id="app">' in text


def test_every_file_of_the_folder_is_of_a_kind_that_is_served() -> None:
    assert set(FILES) == set(page_assets())
    assert {Path(name).suffix for name in FILES} <= set(CONTENT_TYPES)


async def test_every_file_is_served_with_its_type_and_its_bytes(hub: OpenHub) -> None:
    async with stranger(hub) as client:
        for name in FILES:
            if name == SHELL_NAME:
                continue
            answer = await client.get(f"/ui/assets/{name}")
            assert answer.status_code == 200, name
            assert answer.content == (FOLDER / name).read_bytes()
            assert answer.headers["content-type"] == CONTENT_TYPES[Path(name).suffix].decode()
            assert answer.headers["cache-control"] == "no-cache"
            assert answer.headers["etag"].startswith('"'), "a strong one"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-security-policy"].startswith("default-src 'self'")


def an_asset() -> str:
    return next(f"/ui/assets/{name}" for name in FILES if name.endswith(".css"))


@pytest.mark.parametrize("known", ["{etag}", "W/{etag}", '"other", {etag}', "*"])
async def test_a_file_that_the_browser_has_is_not_sent_again(hub: OpenHub, known: str) -> None:
    async with stranger(hub) as client:
        first = await client.get(an_asset())
        headers = {"If-None-Match": known.format(etag=first.headers["etag"])}
        again = await client.get(an_asset(), headers=headers)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["content-length"] == first.headers["content-length"], "RFC 9110 8.6: that of the 200, or none"


@pytest.mark.parametrize("known", ['"other"', "", "{plain}", "W/*"])
async def test_any_other_tag_gets_the_file(hub: OpenHub, known: str) -> None:
    async with stranger(hub) as client:
        first = await client.get(an_asset())
        headers = {"If-None-Match": known.format(plain=first.headers["etag"].strip('"'))}
        assert (await client.get(an_asset(), headers=headers)).content == first.content


async def test_on_a_socket_a_304_leaves_the_connection_usable(make_server: MakeHub) -> None:
    hub = await make_server()
    async with httpx.AsyncClient(
        base_url=hub.url, limits=httpx.Limits(max_connections=1), timeout=DEADLINE_SECONDS
    ) as client:
        first = await client.get(an_asset())
        headers = {"If-None-Match": first.headers["etag"]}
        answers = [await client.get(an_asset(), headers=headers) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [304] * 3
        assert (await client.get(an_asset())).content == first.content


CLIMBS = [
    "/ui/assets/../hub.py",
    "/ui/assets/%2e%2e/hub.py",
    "/ui/assets/..%2fhub.py",
    "/ui/assets/%2e%2e%2f%2e%2e%2fhub%2fhub.py",
    "/ui/assets/..\\hub.py",
    "/ui/assets/..%5chub.py",
    "/ui/assets/css/../../hub.py",
    "/ui/assets/css/../css/base.css",
    "/ui/assets//etc/passwd",
    "/ui/assets/%2fetc%2fpasswd",
    "/ui/assets/C:%5cWindows",
    "/ui/assets/css",
    "/ui/assets/css/",
    "/ui/assets/",
    "/ui/assets/css/base.css/",
    "/ui/assets/css/base.css%00.js",
    "/ui/assets/CSS/BASE.CSS",
    "/ui/assets/.",
    "/ui/assets/index.html",
    "/ui/assets/css/base.css%0d%0aX-Injected:%201",
    "/ui/assets/%ff%fe",
    "/ui/nothing",
]


@pytest.mark.parametrize("path", CLIMBS)
async def test_only_what_is_in_the_index_is_found(make_server: MakeHub, path: str) -> None:
    """On a real socket, with the path as it is: a client would tidy it up."""
    hub = await make_server()
    async with httpx.AsyncClient(base_url=hub.url, timeout=DEADLINE_SECONDS) as client:
        request = client.build_request("GET", hub.url)
        request.extensions["target"] = path.encode()
        answer = await client.send(request)
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
    assert "x-injected" not in answer.headers


async def test_files_are_not_rate_limited_and_hold_up_nobody(make_hub: MakeHub) -> None:
    hub = await make_hub({"rate_limits": {"enabled": True, "per_connection": 1, "overall": 1}})
    async with stranger(hub) as client:
        assert [(await client.get(an_asset())).status_code for _ in range(5)] == [200] * 5
    assert (await hub.api.client.get("/api/v1/channels")).status_code == 200


@pytest.mark.parametrize(("method", "path"), [("POST", "/ui"), ("GET", "/ui/login"), ("DELETE", "/ui/assets/x.js")])
async def test_other_methods_are_not_allowed(hub: OpenHub, method: str, path: str) -> None:
    async with stranger(hub) as client:
        assert (await client.request(method, path)).status_code == 405
