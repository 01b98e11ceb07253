"""The registry: everything that has a public name, in one place, for docs, OpenAPI and tests."""

from typing import NamedTuple

from parley.core import daemon_errors  # noqa: F401  registers what a daemon says no with
from parley.core.errors import ERRORS, ParleyError
from parley.core.events import EVENTS, EventSpec
from parley.core.exits import Exit
from parley.core.metrics import METRICS, MetricSpec
from parley.core.settings import SettingSpec, setting_specs


class CloseCode(NamedTuple):
    """A WebSocket close code that the hub sends, and what a client does about it."""

    code: int
    meaning: str
    reconnect: bool


CLOSE_CODES: tuple[CloseCode, ...] = (
    CloseCode(1000, "the client closed the feed", False),
    CloseCode(1001, "the hub is shutting down; connect again after a while", True),
    CloseCode(1003, "the client sent something that is not a valid hello, or anything after it", False),
    CloseCode(1007, "the client sent text that is not UTF-8", False),
    CloseCode(
        1008, "the client took nothing for too long, or said no hello in time; connect again from the last event", True
    ),
    CloseCode(1009, "the client sent a message larger than the limit", False),
    CloseCode(
        1011, "the hub failed while reading the log, or a ping went unanswered; connect again with backoff", True
    ),
    CloseCode(4401, "the token or the page's session is no longer valid; log in again", False),
    CloseCode(4410, "the events after the cursor were moved to an archive (CURSOR_EXPIRED)", False),
)


class Registry(NamedTuple):
    """All public names of the product."""

    errors: tuple[type[ParleyError], ...]
    exits: tuple[Exit, ...]
    events: tuple[EventSpec, ...]
    metrics: tuple[MetricSpec, ...]
    settings: tuple[SettingSpec, ...]
    close_codes: tuple[CloseCode, ...]


def registry() -> Registry:
    """The registry as it stands."""
    return Registry(
        tuple(ERRORS.values()), tuple(Exit), tuple(EVENTS.values()), METRICS, tuple(setting_specs()), CLOSE_CODES
    )
