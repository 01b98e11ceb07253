"""A browser for tests: it sends what a browser sends for the page, and nothing that a program would know to send."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx

from tests.hub.hubs import OpenHub


async def new_code(hub: OpenHub) -> str:
    """A one-time code, asked for with the token."""
    return (await hub.api.call("POST", "/api/v1/ui/code"))["code"]


def own_origin(hub: OpenHub) -> dict[str, str]:
    """What a browser adds to our page's own requests that change something."""
    return {"Origin": hub.url}


async def log_in(hub: OpenHub) -> str:
    """Logs in as the page does; the cookie as the browser sends it from then on."""
    code = await new_code(hub)
    async with stranger(hub) as client:
        answer = await client.post("/ui/login", json={"code": code}, headers=own_origin(hub))
    assert answer.status_code == 200, answer.text
    return answer.headers["set-cookie"].partition(";")[0]


@asynccontextmanager
async def stranger(hub: OpenHub, **headers: str) -> AsyncGenerator[httpx.AsyncClient]:
    """A caller without the token, and with these headers only."""
    transport = httpx.ASGITransport(app=hub.hub.app)
    async with httpx.AsyncClient(transport=transport, base_url=hub.url, headers=headers) as client:
        yield client


@asynccontextmanager
async def page_of(hub: OpenHub) -> AsyncGenerator[httpx.AsyncClient]:
    """The page's requests after a log-in; without an ``Origin``, which a test adds as it needs."""
    async with stranger(hub, Cookie=await log_in(hub)) as client:
        yield client
