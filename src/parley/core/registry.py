"""The registry: everything that has a public name, in one place, for docs, OpenAPI and tests."""

from typing import NamedTuple

from parley.core.errors import ParleyError
from parley.core.events import EVENTS, EventSpec
from parley.core.exits import Exit
from parley.core.metrics import BROKER_METRICS, METRICS, MetricSpec
from parley.core.settings import SettingSpec, setting_specs
from parley.core.wire_errors import every_error


class CloseCode(NamedTuple):
    """A WebSocket close code that a server of ours sends, and what a client does about it."""

    code: int
    meaning: str
    reconnect: bool


CLOSE_CODES: tuple[CloseCode, ...] = (
    CloseCode(1000, "the client closed the feed", False),
    CloseCode(1001, "the hub is shutting down; connect again after a while", True),
    CloseCode(
        1002, "a frame that does not keep to the WebSocket protocol; connect again if it was damaged on its way", True
    ),
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


BROKER_CLOSE_CODES: tuple[CloseCode, ...] = (
    CloseCode(1000, "the daemon closed the connection", False),
    CloseCode(1001, "the broker is shutting down; connect again after a while", True),
    CloseCode(1002, "a frame that does not belong here, such as a second hello", False),
    CloseCode(1007, "the daemon sent text that is not UTF-8", False),
    CloseCode(1008, "nothing was heard for too long, or the daemon was not ready in time", True),
    CloseCode(1009, "a frame was larger than the limit", False),
    CloseCode(1011, "the broker failed; connect again with backoff", True),
    CloseCode(4001, "an admin closed the connection; the member may connect again when its user wants to", False),
    CloseCode(4002, "the member left the mesh, was removed from it or was banned (MEMBERSHIP_ENDED)", False),
    CloseCode(4003, "the member connected from elsewhere (CONNECTION_REPLACED)", False),
    CloseCode(4004, "the member is connected from elsewhere (ALREADY_CONNECTED)", False),
    CloseCode(4010, "a feature that the daemon requires is missing (FEATURE_UNAVAILABLE)", False),
    CloseCode(4011, "a parameter of a required feature is not valid; said by the daemon", False),
    CloseCode(4012, "a parameter of a required feature is below the daemon's floor; said by the daemon", False),
    CloseCode(4013, "the mesh has a roster, and the daemon speaks a version that knows none (UPGRADE_NEEDED)", False),
    CloseCode(4401, "the hello was refused (HELLO_REFUSED)", False),
)
"""What ends a daemon's connection to a broker, on either side."""


class Registry(NamedTuple):
    """All public names of the product."""

    errors: tuple[type[ParleyError], ...]
    exits: tuple[Exit, ...]
    events: tuple[EventSpec, ...]
    metrics: tuple[MetricSpec, ...]
    settings: tuple[SettingSpec, ...]
    close_codes: tuple[CloseCode, ...]
    broker_close_codes: tuple[CloseCode, ...]


def registry() -> Registry:
    """The registry as it stands."""
    return Registry(
        every_error(),
        tuple(Exit),
        tuple(EVENTS.values()),
        (*METRICS, *BROKER_METRICS),
        tuple(setting_specs()),
        CLOSE_CODES,
        BROKER_CLOSE_CODES,
    )
