"""What any of our servers needs: bind rules, token, a page's codes and sessions, Host and Origin, limiter, request ids,
drain, free disk, logs, metrics.

Logs and metrics stand on libraries that take a third of a second to load. Commands that only look at the token
use this room too, so those two are loaded when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from parley.serve.bind import BoundSocket, bind, check_bind
from parley.serve.disk import DiskWatch, look_at_disk
from parley.serve.drain import InFlight
from parley.serve.limiter import Decision, RateLimiter
from parley.serve.login_codes import LoginCodes
from parley.serve.origin import LOOPBACK_NAMES, host_allowed, origin_allowed, page_origin
from parley.serve.page_sessions import PageSessions
from parley.serve.redact import forget_secret, register_secret
from parley.serve.request_ids import RequestIds, request_id
from parley.serve.security_headers import SECURITY_HEADERS, head_lines
from parley.serve.token import Reloaded, TokenStore

if TYPE_CHECKING:
    from parley.serve.logs import ServerLog, configure
    from parley.serve.metrics import Alert, Metrics, Snapshot

__all__ = [
    "LOOPBACK_NAMES",
    "SECURITY_HEADERS",
    "Alert",
    "BoundSocket",
    "Decision",
    "DiskWatch",
    "InFlight",
    "LoginCodes",
    "Metrics",
    "PageSessions",
    "RateLimiter",
    "Reloaded",
    "RequestIds",
    "ServerLog",
    "Snapshot",
    "TokenStore",
    "bind",
    "check_bind",
    "configure",
    "forget_secret",
    "head_lines",
    "host_allowed",
    "look_at_disk",
    "origin_allowed",
    "page_origin",
    "register_secret",
    "request_id",
]

_LOADED_LATER: Final = {
    "ServerLog": "parley.serve.logs",
    "configure": "parley.serve.logs",
    "Alert": "parley.serve.metrics",
    "Metrics": "parley.serve.metrics",
    "Snapshot": "parley.serve.metrics",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED_LATER[name]), name)
