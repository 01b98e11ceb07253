"""What a bus may be told when it begins, and what it answers."""

import random
import secrets
from collections.abc import Callable
from typing import Literal, NamedTuple

from parley.bus.chain import Chain
from parley.bus.fingerprint import Fingerprint
from parley.bus.revocation import Revocations
from parley.core import limits
from parley.core.backoff import Jitter
from parley.core.errors import ParleyError
from parley.core.sealing import Random

SpoolPolicy = Literal["off", "publish", "all"]


class BusOptions(NamedTuple):
    """What a bus may be told; everything has a default."""

    spool: SpoolPolicy | None = None
    """What waits in the outbox for a peer that is away: nothing, what is published, or requests, too. Unless told, a
    bus with a durable store spools what is published, and one with a store in memory nothing."""
    seal_spool: bool = True
    """Whether what waits is sealed to its recipient."""
    spool_ms: int = limits.BUS_OUTBOX_MS_MAX
    """How long something published may wait before it expires."""
    topics: frozenset[str] = frozenset()
    """Subscribed to from the start: what comes before there is a handler waits for it."""
    handlers_max: int = limits.BUS_HANDLERS_MAX
    """Requests on one topic that are handled at a time."""
    random_bytes: Random = secrets.token_bytes
    jitter: Jitter = random.random
    keep_revocations: Callable[[Revocations], None] | None = None
    """Writes down what was learned to be revoked; called in a thread."""
    renew: Callable[[Chain], str | None] | None = None
    """Where the user key is: the line of a new grant for a peer whose chain is due, if it may have one; called in a
    thread."""
    keep_renewal: Callable[[str], object] | None = None
    """Writes down a new grant that the machine with the user key has sent, if it is to be believed; called in a
    thread."""


class Delivery(NamedTuple):
    """What became of a message for one peer."""

    peer: Fingerprint
    outcome: Literal["delivered", "spooled", "failed"]
    message_id: bytes
    """Under which the same message may be sent again without becoming two."""
    outbox_id: int | None = None
    """Of a message that is spooled."""
    error: ParleyError | None = None
    """Why it was not delivered."""


class Peer(NamedTuple):
    """A peer that was met, or is announced."""

    fingerprint: Fingerprint
    connected: bool
    role: str | None
    topics: tuple[str, ...]
    seen_at: int | None
    """When it last said who it is; None for one that was never met."""
