"""What any of our servers needs: instance lock, bind rules, token, Host and Origin, limiter, request ids, drain, logs,
metrics."""

from parley.serve.bind import BoundSocket, bind, check_bind
from parley.serve.drain import InFlight
from parley.serve.limiter import Decision, RateLimiter
from parley.serve.lock import Holder, InstanceLock, probe
from parley.serve.logs import ServerLog, configure
from parley.serve.metrics import Alert, Metrics, Snapshot
from parley.serve.origin import LOOPBACK_NAMES, host_allowed, origin_allowed
from parley.serve.redact import register_secret
from parley.serve.request_ids import RequestIds, request_id
from parley.serve.security_headers import SECURITY_HEADERS
from parley.serve.token import Reloaded, TokenStore

__all__ = [
    "LOOPBACK_NAMES",
    "SECURITY_HEADERS",
    "Alert",
    "BoundSocket",
    "Decision",
    "Holder",
    "InFlight",
    "InstanceLock",
    "Metrics",
    "RateLimiter",
    "Reloaded",
    "RequestIds",
    "ServerLog",
    "Snapshot",
    "TokenStore",
    "bind",
    "check_bind",
    "configure",
    "host_allowed",
    "origin_allowed",
    "probe",
    "register_secret",
    "request_id",
]
