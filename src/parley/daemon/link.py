"""The connection of one member to its broker, as a machine without a socket.

::

    idle → connecting → challenged → greeted → negotiating → ready
             ↑    (any of these may be lost)                  │
             └──────────── waiting ←──────────────────────────┘        ended

A connection that is lost is made again after a wait that doubles, whether or not there ever was one before. Some
endings are final: the member was removed, the broker lacks what is needed, or the member connected from elsewhere. To
come back then would push the other one out, which would come back in its turn; so the loser stays away. The other one
may also be ourselves: a hello of a connection that was given up before its answer came can reach the broker after that
of the next one, and replace it. Such a ghost is pushed out in its turn, each one once.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from parley.core.backoff import Backoff, Jitter
from parley.core.daemon_errors import ConnectionEnded, FeatureRefused, MembershipLost
from parley.core.errors import ConfigInvalid, LocalError
from parley.core.roster.heads import Head
from parley.daemon.effects import Agree, Connect, Disconnect, Effect, End, Tell, Transmit
from parley.daemon.features import OPTIONAL, REQUIRED, Judged, judge
from parley.daemon.instant import Instant
from parley.wire.broker import (
    NEWEST_PROTOCOL,
    PROTOCOL_VERSION,
    Challenge,
    ErrorFrame,
    Features,
    FromBroker,
    Hello,
    Negotiate,
    Ping,
    Pong,
    Problem,
    RosterWelcome,
    Welcome,
    hello_bytes,
)
from parley.wire.rosters import RosterHello, roster_hello_bytes

State = Literal["idle", "connecting", "challenged", "greeted", "negotiating", "ready", "waiting", "ended"]

HANDSHAKE_SECONDS: Final = 10.0
"""How long each step of a handshake may take. A broker that ignores a frame it does not know must not hold us."""
HEARTBEATS_MISSED: Final = 2.5
ELSEWHERE_SECONDS: Final = 120.0
"""How long the broker may take a connection that is gone for one that is there."""

ANSWER_BYTES_SHOWN: Final = 16 * 1024
"""What a broker says of its features in earnest is far shorter; a log is not filled by what is not."""

NORMAL, GOING_AWAY, PROTOCOL_ERROR, SILENT = 1000, 1001, 1002, 1008
KICKED, MEMBERSHIP_ENDED, REPLACED, ALREADY_CONNECTED, HELLO_REFUSED = 4001, 4002, 4003, 4004, 4401
_FINAL: Final = {
    KICKED: "an admin closed the connection",
    MEMBERSHIP_ENDED: "the member was removed from the mesh",
    REPLACED: "the member connected from elsewhere",
    HELLO_REFUSED: "the broker does not know the member",
}
_REFUSED_FEATURES: Final = (4010, 4011, 4012, 4013)


class Member(NamedTuple):
    """Whom a link speaks for. ``sign`` is the member's signature over the bytes."""

    mesh_id: str
    mesh_slug: str
    member_id: str
    pubkey: str
    instance_id: str
    host_fingerprint: str
    daemon_version: str
    sign: Callable[[bytes], bytes]
    fingerprint: str = ""
    """Of the mesh's roster; empty for a mesh in which the broker decides who is a member."""
    head: Callable[[], Head | None] = lambda: None
    """How far the member has the roster."""


class LinkSettings(NamedTuple):
    """What a user may tune."""

    backoff: Backoff = Backoff()
    max_age_hours_override: int | None = None
    inbox_bytes_max: int | None = None


class Lost(NamedTuple):
    """Since when there is no connection, in wall-clock milliseconds, and why the last try failed."""

    since_ms: int
    reason: str


class Link:
    """Told what happens, answers with what to do. ``deadline`` is when it wants ``on_timer`` next."""

    def __init__(self, member: Member, settings: LinkSettings, jitter: Jitter) -> None:
        self.member = member
        self.state: State = "idle"
        self.welcome: Welcome | None = None
        self.judged: Judged | None = None
        self.deadline: float | None = None
        self.failures = 0
        self.lost: Lost | None = None
        """Why there is no connection, until there is one."""
        self.last_problem: Problem | None = None
        """What the broker said last before a connection ended."""
        self.settings = settings
        self._jitter = jitter
        self.lag_ms: float | None = None
        """How long the broker took to answer what was asked of it last, while there is a connection."""
        self._heard_at = 0.0
        self._asked_at = 0.0
        self._pings = 0
        self._refused_since: float | None = None
        self._ghosts: list[float] = []
        """Until when the hello of a connection that was given up may still come, for each of them."""

    def start(self, now: Instant) -> list[Effect]:
        """Begins, or begins at once what was waiting."""
        if self.state not in ("idle", "waiting"):
            return []
        self._enter("connecting", now)
        return [Connect()]

    def stop(self) -> list[Effect]:
        """Closes the connection, in peace and for good."""
        connected = self.state not in ("idle", "waiting", "ended")
        self.state, self.deadline = "ended", None
        return [Disconnect(NORMAL, "the daemon is stopping")] if connected else []

    def on_connected(self, now: Instant) -> list[Effect]:
        """The socket is open; the broker speaks first."""
        if self.state == "connecting":
            self._enter("challenged", now)
        return []

    def on_frame(self, frame: FromBroker, now: Instant) -> list[Effect]:
        """A frame of the handshake or a heartbeat; others are for others, and give nothing here."""
        if self.state in ("idle", "waiting", "ended"):
            return []  # of a connection that was left already
        self._heard_at = now.at
        match frame:
            case Ping():
                return [Transmit(Pong(frame.id))]
            case Pong() if frame.id == self._pings:
                self.lag_ms = (now.at - self._asked_at) * 1000
                return []
            case ErrorFrame():
                self.last_problem = frame.problem
                return []
            case Challenge() if self.state == "challenged":
                return self._greet(frame, now)
            case Welcome() if self.state == "greeted" and self._is_as_greeted(frame):
                self.welcome = frame
                self._enter("negotiating", now)
                self._asked_at = now.at
                return [Transmit(Negotiate(list(REQUIRED), list(OPTIONAL)))]
            case Features() if self.state == "negotiating":
                return self._agree(frame, now)
            case Challenge() | Welcome() | Features():
                return self._lose(now, PROTOCOL_ERROR, f"{type(frame).__name__} does not belong here")
            case _:
                return []

    def on_closed(self, code: int | None, reason: str, now: Instant) -> list[Effect]:
        """The connection ended, or never came to be (``code`` None)."""
        if self.state in ("idle", "waiting", "ended"):
            return []
        if code == ALREADY_CONNECTED:
            self._refused_since = now.at if self._refused_since is None else self._refused_since
            if now.at - self._refused_since >= ELSEWHERE_SECONDS:
                return self._end(MembershipLost("The member is connected from elsewhere", **self._why(code, reason)))
        if code == REPLACED and self._ghosts and now.at < self._ghosts.pop():
            return self._wait(now, code, reason)
        if code in _REFUSED_FEATURES:
            told = self._failed(None, kind=reason, close_code=code)
            return [told, *self._end(FeatureRefused(f"The broker refuses: {reason}", **self._why(code, reason)))]
        if code in _FINAL:
            lost = ConnectionEnded if code == KICKED else MembershipLost
            return self._end(lost(f"{self.member.mesh_slug}: {_FINAL[code]}", **self._why(code, reason)))
        return self._wait(now, code, reason)

    def on_timer(self, now: Instant) -> list[Effect]:
        """Something took too long, or it is time to try again."""
        if self.deadline is None or now.at < self.deadline:
            return []
        if self.state == "waiting":
            return self.start(now)
        if self.state == "ready" and self.welcome is not None:
            heartbeat = self.welcome.heartbeat_ms / 1000
            if now.at - self._heard_at < heartbeat * HEARTBEATS_MISSED:
                self.deadline = now.at + heartbeat
                self._pings += 1
                self._asked_at = now.at
                return [Transmit(Ping(self._pings))]
            return self._lose(now, SILENT, "nothing was heard for too long")
        if self.state in ("connecting", "challenged", "greeted", "negotiating"):
            return self._lose(now, SILENT, f"nothing came while {self.state}")
        return []

    def _greet(self, challenge: Challenge, now: Instant) -> list[Effect]:
        if challenge.protocol != PROTOCOL_VERSION:
            reason = f"The broker speaks protocol {challenge.protocol}, this daemon {PROTOCOL_VERSION}"
            return [Disconnect(PROTOCOL_ERROR, "protocol"), *self._end(FeatureRefused(reason, feature="protocol"))]
        member = self.member
        if member.fingerprint:
            return self._greet_with_roster(challenge, now)
        hello = Hello(
            mesh_id=member.mesh_id,
            member_id=member.member_id,
            pubkey=member.pubkey,
            signature="",
            instance_id=member.instance_id,
            host_fingerprint=member.host_fingerprint,
            daemon_version=member.daemon_version,
        )
        signature = member.sign(hello_bytes(nonce=challenge.nonce, broker_id=challenge.broker_id, hello=hello)).hex()
        self._enter("greeted", now)
        return [Transmit(replace(hello, signature=signature))]

    def _is_as_greeted(self, welcome: Welcome) -> bool:
        return isinstance(welcome, RosterWelcome) == bool(self.member.fingerprint)

    def _greet_with_roster(self, challenge: Challenge, now: Instant) -> list[Effect]:
        if challenge.newest < NEWEST_PROTOCOL:
            reason = f"The broker speaks protocol {challenge.newest}; a mesh with a roster needs {NEWEST_PROTOCOL}"
            return [Disconnect(PROTOCOL_ERROR, "protocol"), *self._end(FeatureRefused(reason, feature="protocol"))]
        member = self.member
        hello = RosterHello(
            mesh_id=member.mesh_id,
            fingerprint=member.fingerprint,
            pubkey=member.pubkey,
            signature="",
            instance_id=member.instance_id,
            member_id=member.member_id,
            head=member.head(),
            host_fingerprint=member.host_fingerprint,
            daemon_version=member.daemon_version,
        )
        said = roster_hello_bytes(nonce=challenge.nonce, broker_id=challenge.broker_id, hello=hello)
        self._enter("greeted", now)
        return [Transmit(replace(hello, signature=member.sign(said).hex()))]

    def _agree(self, features: Features, now: Instant) -> list[Effect]:
        assert self.welcome is not None
        try:
            verdict = judge(features, self.welcome, self.settings.max_age_hours_override)
        except ConfigInvalid as refusal:
            told = self._failed(features, kind=str(refusal.details["reason"]), detail=str(refusal))
            return [told, Disconnect(NORMAL, "settings"), *self._end(refusal)]
        if not isinstance(verdict, Judged):
            details = {"kind": verdict.kind, "feature": verdict.feature, "detail": verdict.detail}
            problem = Problem("FEATURE_REFUSED", verdict.detail, 400, False, details)
            error = FeatureRefused(f"{verdict.feature}: {verdict.detail}", close_code=verdict.code, **details)
            return [
                self._failed(features, **details, close_code=verdict.code),
                Transmit(ErrorFrame(problem, verdict.code)),
                Disconnect(verdict.code, verdict.kind),
                *self._end(error),
            ]
        self.judged, self.failures, self._refused_since, self.lost = verdict, 0, None, None
        self.lag_ms = (now.at - self._asked_at) * 1000
        self._enter("ready", now)
        return [Agree(verdict.terms), Tell("broker_status", {"status": "open"})]

    def _failed(self, features: Features | None, **why: Any) -> Effect:
        """Tells of the whole negotiation: who reads it can then say which of the two is too old."""
        asked = {"required": list(REQUIRED), "optional": list(OPTIONAL)}
        answered: dict[str, Any] = {}
        if features is not None:
            supported = {name: offer.params for name, offer in features.supported.items()}
            answered = {"supported": supported, "missing_required": features.missing_required}
            if len(msgspec.json.encode(answered)) > ANSWER_BYTES_SHOWN:
                missing = [name for name in REQUIRED if name in features.missing_required]
                answered = {"supported": "too long to be shown", "missing_required": missing}
        return Tell("feature_negotiation_failed", {**why, **asked, **answered})

    def _enter(self, state: State, now: Instant) -> None:
        self.state = state
        self._heard_at = now.at
        heartbeat = HANDSHAKE_SECONDS
        if state == "ready" and self.welcome is not None:
            heartbeat = self.welcome.heartbeat_ms / 1000
        self.deadline = now.at + heartbeat

    def _lose(self, now: Instant, code: int, reason: str) -> list[Effect]:
        return [Disconnect(code, reason), *self._wait(now, code, reason)]

    def _wait(self, now: Instant, code: int | None, reason: str) -> list[Effect]:
        was_ready = self.state == "ready"
        if self.state == "greeted":
            self._ghosts = [until for until in self._ghosts if now.at < until] + [now.at + ELSEWHERE_SECONDS]
        self.failures += 1
        self.lag_ms = None
        self.lost = Lost(now.ms if self.lost is None else self.lost.since_ms, reason or f"closed with {code}")
        self.state = "waiting"
        self.deadline = now.at + self.settings.backoff.wait_ms(self.failures, self._jitter) / 1000
        if was_ready or self.failures == 1:
            return [Tell("broker_status", {"status": "reconnecting", "code": code, "reason": reason})]
        return []

    def _end(self, error: LocalError) -> list[Effect]:
        self.state, self.deadline, self.lag_ms = "ended", None, None
        return [Tell("broker_status", {"status": "ended", "reason": str(error), "code": error.code}), End(error)]

    def _why(self, code: int, reason: str) -> dict[str, Any]:
        said = self.last_problem
        return {
            "mesh": self.member.mesh_slug,
            "close_code": code,
            "reason": reason,
            "broker_code": None if said is None else said.code,
        }
