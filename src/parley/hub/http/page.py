"""Handlers of the page: its files, which are open to all and hold no data, and its log-in."""

from contextlib import suppress
from typing import TYPE_CHECKING

from parley import __version__
from parley.core.errors import LoginCodeInvalid, NotFound, Refused
from parley.core.limits import LOGIN_CODE_SECONDS
from parley.hub.page_assets import SHELL_NAME, page_assets
from parley.serve import page_origin
from parley.serve.endpoint import Answer, Call
from parley.wire.answers import LoggedIn, LoggedOut, PageLink, PageSession

if TYPE_CHECKING:
    from parley.hub.hub import Hub

_CHECK_EACH_TIME = (b"cache-control", b"no-cache")
_NEVER_STORE = (b"cache-control", b"no-store")


async def page(hub: "Hub", call: Call) -> Answer:
    shell = page_assets()[SHELL_NAME]
    return Answer(200, shell.body, shell.content_type, (_NEVER_STORE,))


async def page_below(hub: "Hub", call: Call) -> Answer:
    return await page(hub, call)


async def asset(hub: "Hub", call: Call) -> Answer:
    path = call.path["path"]
    found = page_assets().get(path) if path != SHELL_NAME else None
    if found is None:
        raise NotFound("Not found", path=f"/ui/assets/{path}")
    known = {each.strip() for each in call.headers.get(b"if-none-match", b"").split(b",")}
    status = 304 if known & {found.etag, b"W/" + found.etag, b"*"} else 200
    return Answer(status, found.body, found.content_type, (_CHECK_EACH_TIME, (b"etag", found.etag)))


async def page_link(hub: "Hub", call: Call) -> Answer:
    code = hub.page.codes.issue()
    # The name by which the caller reached us: a browser on the same machine reaches us by it, too.
    origin = page_origin(call.headers[b"host"], port=hub.port, names=hub.names)
    url = f"{origin}/ui#code={code}"
    return Answer(200, PageLink(code, LOGIN_CODE_SECONDS, url), headers=(_NEVER_STORE,))


async def page_session(hub: "Hub", call: Call) -> Answer:
    about = PageSession(hub.db_id, hub.instance_id, hub.workspace.root.name, __version__)
    return Answer(200, about, headers=(_NEVER_STORE,))


async def login(hub: "Hub", call: Call) -> Answer:
    if not hub.page.codes.redeem(call.body.code):
        raise LoginCodeInvalid("The link was used already or is too old")
    cookie = hub.page.sessions.start(secure=_is_https(call)).encode("ascii")
    return Answer(200, LoggedIn(True, hub.db_id), headers=(_NEVER_STORE, (b"set-cookie", cookie)))


async def logout(hub: "Hub", call: Call) -> Answer:
    with suppress(Refused):  # a session that has ended is forgotten all the same
        hub.end_session(hub.page.sessions.find(call.headers.get(b"cookie")))
    cookie = hub.page.sessions.end(secure=_is_https(call)).encode("ascii")
    return Answer(200, LoggedOut(True), headers=(_NEVER_STORE, (b"set-cookie", cookie)))


def _is_https(call: Call) -> bool:
    """Whether the browser reached the page over HTTPS, by a proxy that the hub itself knows nothing of."""
    return call.headers.get(b"origin", b"").startswith(b"https://")
