"""What one broker allows, and how long it waits: numbers that its operator sets and the rules are handed."""

from dataclasses import dataclass
from typing import Final

DAY_MS: Final = 24 * 3600 * 1000
DEDUPE_DAYS_MIN: Final = 7
"""A daemon gives a message up well before the broker may forget its id; with less there is no time in between."""
SEEN_MS_MAX: Final = 20_000
QUEUE_FRAMES_MIN: Final = 2_000
QUEUE_BYTES_MIN: Final = 16 * 1024 * 1024
_AROUND_BODY_BYTES: Final = 4 * 1024
"""What a frame holds beside its body, at most about."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The numbers. ``dedupe_days`` 0 keeps the ids of messages for ever."""

    inline_bytes_max: int = 64 * 1024
    window: int = 64
    """Deliveries, and sends, that one connection may have unanswered."""
    lease_ms: int = 30_000
    heartbeat_ms: int = 30_000
    ready_ms: int = 10_000
    """How long a new connection may take until it has greeted and negotiated."""
    poll_ms: int = 30_000
    """How often a connection looks for deliveries that nobody told it of."""
    rate_window_ms: int = 10_000
    rate_messages: int = 10_000
    """Messages that one member may send in a window."""
    requests_per_second: int = 50
    """Requests of one connection; ten times as many may come at once after a pause."""
    http_per_address: int = 500
    """HTTP requests and upgrades in a second that come from one address."""
    http_overall: int = 2_000
    delivery_days: int = 30
    """How long a delivery waits for its recipient before it is given up."""
    message_days: int = 60
    """How long a message is kept. Longer than its deliveries wait, so that a sender can learn that one is dead."""
    dedupe_days: int = 365
    ephemeral_hours: float = 1.0
    """How long a member whose keys end with its daemon may be away."""
    bytes_max: int = 1024 * 1024 * 1024
    """Stored bytes of a new mesh."""
    members_max: int = 1_000
    """Members of a new mesh."""
    connection_policy: str = "prefer_newest"
    """What becomes of a member's second daemon in a new mesh."""

    @property
    def silence_ms(self) -> int:
        """After so long without a word a connection is gone."""
        return self.heartbeat_ms * 5 // 2

    @property
    def seen_ms(self) -> int:
        """How often it is written down who is connected: well before anybody could be taken for gone."""
        return min(SEEN_MS_MAX, self.silence_ms // 3)

    @property
    def ephemeral_ms(self) -> int:
        """The same, but never so short that a connection which is only silent counts."""
        return max(self.silence_ms, round(self.ephemeral_hours * 3_600_000))

    @property
    def queue_frames_max(self) -> int:
        """Frames that may wait to be sent on one connection."""
        return max(QUEUE_FRAMES_MIN, 4 * self.window)

    @property
    def queue_bytes_max(self) -> int:
        """Their bytes: room for a window of the largest deliveries, leased twice."""
        return max(QUEUE_BYTES_MIN, 2 * self.window * (self.inline_bytes_max * 4 // 3 + _AROUND_BODY_BYTES))


DEFAULT_POLICY: Final = Policy()
