"""One daemon's connection, as a machine without a socket: frames, results and the time go in, effects come out.

::

    challenged ──hello──▶ greeting ──member──▶ greeted ──negotiate──▶ ready ──▶ closed
                             └──────joiner───▶ joining ─────────────────────────▶
                                                                      (any of them may be closed)

What needs the store is asked for by an ``Ask`` with a token, and goes on when ``on_result`` brings its outcome. So the
machine never waits, and whoever drives it may bring results, frames and timers in any order.

A session holds at most ``window`` deliveries that were pushed and not acknowledged. It claims more when it is woken,
when an acknowledgement has made room, when a lease has run out, and now and then without a reason, since a wake-up is a
courtesy and not a promise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, cast

from parley.broker.calls import AcceptMessage, AcknowledgeDeliveries, ClaimDeliveries, EndConnection
from parley.broker.done import Done
from parley.broker.features import negotiated, supported
from parley.broker.greeting import Greet, Greeted
from parley.broker.methods import CallMethod
from parley.broker.policy import Policy
from parley.broker.roster_methods import CallAsJoiner
from parley.broker.rules.accept import AcceptOutcome, incoming, refusal
from parley.broker.tx import Rule
from parley.core.broker_errors import (
    AlreadyConnected,
    ConnectionReplaced,
    FeatureUnavailable,
    HelloRefused,
    InviteRefused,
    MembershipEnded,
    NotAllowed,
    UpgradeNeeded,
)
from parley.core.errors import InternalError, InvalidInput, ParleyError, RateLimited, ServiceUnavailable, ShuttingDown
from parley.sqlite import Outcome
from parley.wire.broker import (
    NEWEST_PROTOCOL,
    PROTOCOL_VERSION,
    Answer,
    Challenge,
    DeliveryAck,
    ErrorFrame,
    FromBroker,
    FromDaemon,
    Hello,
    Negotiate,
    Notice,
    Ping,
    Pong,
    Push,
    RefusedSend,
    Request,
    RosterWelcome,
    Send,
    Welcome,
    hello_bytes,
    problem_of,
)
from parley.wire.rosters import RosterHello, roster_hello_bytes

Verify = Callable[[bytes, bytes, bytes], bool]
"""Whether the owner of a public key made this signature over these bytes."""
Phase = Literal["challenged", "greeting", "greeted", "joining", "ready", "closed"]

GOING_AWAY, PROTOCOL_ERROR, SILENT, FAILED = 1001, 1002, 1008, 1011
KICKED, ENDED, REPLACED, ALREADY, FEATURE, UPGRADE, HELLO = 4001, 4002, 4003, 4004, 4010, 4013, 4401
_GREETING_CODES: Final[dict[type[ParleyError], int]] = {
    HelloRefused: HELLO,
    MembershipEnded: ENDED,
    AlreadyConnected: ALREADY,
    InviteRefused: HELLO,
    UpgradeNeeded: UPGRADE,
}
_REQUESTS_MAX: Final = 64
"""Requests of one connection that may be unanswered."""
_ACKED_WINDOWS_MAX: Final = 4
"""Windows of deliveries that one connection may have acknowledged at once, though some of them came twice."""
_BURST_SECONDS: Final = 10
"""Requests of so many seconds may come at once after a pause."""


class Reply(NamedTuple):
    """Send a frame on this connection."""

    frame: FromBroker


class Close(NamedTuple):
    """Close this connection; nothing more comes from it. ``on_closed`` follows."""

    code: int
    reason: str


class Ask(NamedTuple):
    """Run the rule and bring its outcome to ``on_result``."""

    token: int
    rule: Rule[Any]


class Joined(NamedTuple):
    """This connection is a member's now; those that it replaces are to be ended with ``on_replaced``."""

    mesh_id: str
    member_id: str
    replaced: tuple[str, ...]


class Wake(NamedTuple):
    """These members may have something to get."""

    member_ids: tuple[str, ...]


class Expel(NamedTuple):
    """The connections of these members are to be ended with ``on_expelled``."""

    member_ids: tuple[str, ...]


class Kick(NamedTuple):
    """The connections of these members are to be ended with ``on_kicked``."""

    member_ids: tuple[str, ...]


class Tell(NamedTuple):
    """A notice for everybody who is connected in the mesh."""

    mesh_id: str
    notice: Notice


Effect = Reply | Close | Ask | Joined | Wake | Expel | Kick | Tell


@dataclass(frozen=True, slots=True)
class Setting:
    """What all sessions of a broker share."""

    broker_id: str
    broker_instance: str
    policy: Policy
    verify: Verify
    broker_version: str = ""


class Session:
    """The machine. ``now`` is in milliseconds of a clock that never goes back."""

    def __init__(self, setting: Setting, connection_id: str, nonce: str, now: int) -> None:
        self.connection_id = connection_id
        self.phase: Phase = "challenged"
        self.mesh_id = ""
        self.member_id = ""
        self._setting = setting
        self._nonce = nonce
        self._opened_at = self._heard_at = self._claimed_at = now
        self._pinged_at = now
        self._connection_policy = ""
        self._joiner_key = ""
        self._waiting: dict[int, tuple[str, Any]] = {}
        self._tokens = 0
        self._pushed: dict[int, int] = {}
        self._sending = 0
        self._acking = 0
        self._requests = 0
        self._allowance = float(setting.policy.requests_per_second * _BURST_SECONDS)
        self._allowed_at = now
        self._claiming = False
        self._woken = False

    @property
    def unacknowledged(self) -> int:
        """Deliveries that were pushed and are not acknowledged."""
        return len(self._pushed)

    def open(self) -> list[Effect]:
        """The first frame of a connection."""
        return [Reply(Challenge(self._nonce, self._setting.broker_id, newest=NEWEST_PROTOCOL))]

    def on_frame(self, frame: FromDaemon, now: int) -> list[Effect]:
        """Something was said."""
        if self.phase == "closed":
            return []
        self._heard_at = now
        match frame:
            case Ping():
                return [Reply(Pong(frame.id))]
            case Pong() | ErrorFrame():
                return []
            case Hello() if self.phase == "challenged":
                return self._on_hello(frame, now)
            case RosterHello() if self.phase == "challenged":
                return self._on_roster_hello(frame, now)
            case Negotiate() if self.phase == "greeted":
                return self._on_negotiate(frame, now)
            case Send() if self.phase == "ready":
                return self._on_send(frame)
            case DeliveryAck() if self.phase == "ready":
                return self._on_delivery_ack(frame)
            case Request() if self.phase in ("ready", "joining"):
                return self._on_request(frame, now)
            case _:
                name = frame.__struct_config__.tag
                return self._end(InvalidInput(f"{name} does not belong here", phase=self.phase), PROTOCOL_ERROR)

    def on_unreadable(self, error: ParleyError, now: int) -> list[Effect]:
        """What was said is no frame of this protocol. Once the daemon is known, it may be newer than the broker."""
        self._heard_at = now
        if self.phase in ("ready", "joining"):
            return [Reply(ErrorFrame(problem_of(error)))]
        return self._end(error, PROTOCOL_ERROR)

    def on_result(self, token: int, outcome: Outcome[Any], now: int) -> list[Effect]:
        """What an ``Ask`` came to."""
        kind, about = self._waiting.pop(token)
        if self.phase == "closed":
            return self._after_close(kind, outcome)
        error = outcome.error
        if error is not None and not isinstance(error, ParleyError):
            error = InternalError()
        match kind:
            case "greeted":
                return self._on_greeted(outcome.value, error)
            case "accepted":
                return self._on_accepted(about, outcome.value, error)
            case "claimed":
                return self._on_claimed(about, outcome.value, error, now)
            case "acked":
                return self._on_acked(about, error, now)
            case _:
                return self._on_answered(about, outcome.value, error)

    def on_woken(self, now: int) -> list[Effect]:
        """Something may be due to the member."""
        self._woken = True
        return self._claim(now)

    def on_timer(self, now: int) -> list[Effect]:
        """Time has passed; called every second or so."""
        policy = self._setting.policy
        if self.phase == "closed":
            return []
        if self.phase not in ("ready", "joining") and now - self._opened_at >= policy.ready_ms:
            return self._end(InvalidInput("The daemon was not ready in time", phase=self.phase), SILENT)
        if now - self._heard_at >= policy.silence_ms:
            return self._end(ServiceUnavailable("Nothing was heard for too long", reason="silent"), SILENT)
        effects: list[Effect] = []
        if now - max(self._heard_at, self._pinged_at) >= policy.heartbeat_ms:
            self._pinged_at = now
            effects.append(Reply(Ping(now)))
        over = [delivery_id for delivery_id, until in self._pushed.items() if until <= now]
        for delivery_id in over:
            del self._pushed[delivery_id]
        if over or now - self._claimed_at >= policy.poll_ms:
            self._woken = True
        return effects + self._claim(now)

    def on_notice(self, notice: Notice) -> list[Effect]:
        """Something happened in the mesh."""
        return [Reply(notice)] if self.phase == "ready" else []

    def on_replaced(self) -> list[Effect]:
        """The member has a newer connection."""
        return self._end(ConnectionReplaced("The member connected from elsewhere"), REPLACED)

    def on_expelled(self) -> list[Effect]:
        """The member is none any more."""
        return self._end(MembershipEnded("The member is no longer one of this mesh", reason="ended"), ENDED)

    def on_kicked(self) -> list[Effect]:
        """An admin wants the connection closed."""
        return self._end(NotAllowed("An admin of the mesh closed the connection", reason="kicked"), KICKED)

    def on_stopping(self) -> list[Effect]:
        """The broker stops. What was sent and not answered comes again, to the broker that is there then."""
        return self._end(ShuttingDown("The broker is shutting down"), GOING_AWAY)

    def on_closed(self) -> list[Effect]:
        """The socket is gone, whoever closed it."""
        greeted = self.member_id != ""
        self.phase = "closed"
        self.member_id, member_id = "", self.member_id
        return self._ask("ended", EndConnection(self.connection_id), member_id) if greeted else []

    def _on_hello(self, hello: Hello, now: int) -> list[Effect]:
        setting = self._setting
        if hello.protocol != PROTOCOL_VERSION:
            return self._end(
                FeatureUnavailable(f"This broker speaks protocol {PROTOCOL_VERSION}", feature="protocol"), FEATURE
            )
        signed = hello_bytes(nonce=self._nonce, broker_id=setting.broker_id, hello=hello)
        if not setting.verify(bytes.fromhex(hello.pubkey), bytes.fromhex(hello.signature), signed):
            return self._end(HelloRefused("The signature is not that of this key", reason="signature"), HELLO)
        return self._greet(hello, now)

    def _on_roster_hello(self, hello: RosterHello, now: int) -> list[Effect]:
        verify = self._setting.verify
        signed = roster_hello_bytes(nonce=self._nonce, broker_id=self._setting.broker_id, hello=hello)
        is_signed = verify(bytes.fromhex(hello.pubkey), bytes.fromhex(hello.signature), signed)
        if hello.invite is not None:
            by_invite = bytes.fromhex(hello.invite_signature or "")
            is_signed = is_signed and verify(bytes.fromhex(hello.invite.id), by_invite, signed)
        if not is_signed:
            return self._end(HelloRefused("The signature is not that of this key", reason="signature"), HELLO)
        self._joiner_key = hello.pubkey
        return self._greet(hello, now)

    def _greet(self, hello: Hello | RosterHello, now: int) -> list[Effect]:
        setting, self.phase = self._setting, "greeting"
        rule = Greet(hello, self.connection_id, setting.broker_instance, setting.policy, now - self._opened_at)
        return self._ask("greeted", rule)

    def _on_greeted(self, greeted: Greeted | None, error: ParleyError | None) -> list[Effect]:
        error = error if greeted is None else greeted.refused
        if greeted is None or error is not None:
            error = error or InternalError()
            return self._end(error, _GREETING_CODES.get(type(error), FAILED))
        self.mesh_id = greeted.mesh.mesh_id
        welcome = Reply(self._welcome(greeted))
        if greeted.member is None:
            self.phase = "joining"
            return [welcome]
        self.phase, self.member_id = "greeted", greeted.member.member_id
        self._connection_policy = greeted.mesh.connection_policy
        return [Joined(self.mesh_id, self.member_id, greeted.replaced), welcome]

    def _welcome(self, greeted: Greeted) -> Welcome:
        mesh, member, policy = greeted.mesh, greeted.member, self._setting.policy
        said: dict[str, Any] = {
            "connection_id": self.connection_id,
            "member_id": "" if member is None else member.member_id,
            "display_name": "" if member is None else member.display_name,
            "role": "" if member is None else member.role,
            "mesh_id": mesh.mesh_id,
            "mesh_slug": mesh.slug,
            "key_epoch": mesh.key_epoch,
            "inline_bytes_max": policy.inline_bytes_max,
            "window": policy.window,
            "lease_ms": policy.lease_ms,
            "heartbeat_ms": policy.heartbeat_ms,
            "broker_version": self._setting.broker_version,
        }
        return Welcome(**said) if greeted.roster is None else RosterWelcome(**said, roster=greeted.roster)

    def _on_negotiate(self, frame: Negotiate, now: int) -> list[Effect]:
        has = supported(self._setting.policy, self._connection_policy)
        features = negotiated(has, frame.require, frame.optional)
        if features.missing_required:
            missing = features.missing_required
            error = FeatureUnavailable(f"This broker does not have {missing[0]}", feature=missing[0], missing=missing)
            return [Reply(features), *self._end(error, FEATURE)]
        self.phase, self._woken = "ready", True
        told = Notice("peer_connected", {"member_id": self.member_id})
        return [Reply(features), Tell(self.mesh_id, told), *self._claim(now)]

    def _on_send(self, send: Send) -> list[Effect]:
        policy = self._setting.policy
        if self._sending >= policy.window:
            wait = RateLimited(limit=policy.window, retry_after=1.0)
            return [Reply(refusal(send.client_message_id, wait))]
        self._sending += 1
        message = incoming(self.mesh_id, self.member_id, send)
        return self._ask("accepted", AcceptMessage(message, policy), send.client_message_id)

    def _on_accepted(
        self, client_message_id: str, outcome: AcceptOutcome | None, error: ParleyError | None
    ) -> list[Effect]:
        self._sending -= 1
        if outcome is None:
            return [Reply(refusal(client_message_id, error or InternalError()))]
        effects: list[Effect] = [Reply(outcome.answer)]
        if outcome.woken:
            effects.append(Wake(outcome.woken))
        if isinstance(outcome.answer, RefusedSend) and outcome.answer.problem.code == MembershipEnded.code:
            effects += self.on_expelled()
        return effects

    def _on_delivery_ack(self, frame: DeliveryAck) -> list[Effect]:
        """What is too much at once is left out, and comes again."""
        room = _ACKED_WINDOWS_MAX * self._setting.policy.window - self._acking
        acked = tuple(frame.deliveries[: max(0, room)])
        if not acked:
            return []
        self._acking += len(acked)
        ids = tuple(each.delivery_id for each in acked)
        return self._ask("acked", AcknowledgeDeliveries(self.member_id, acked), ids)

    def _on_request(self, frame: Request, now: int) -> list[Effect]:
        rate = self._setting.policy.requests_per_second
        self._allowance += (now - self._allowed_at) / 1000 * rate
        self._allowance, self._allowed_at = min(self._allowance, rate * _BURST_SECONDS), now
        if self._requests >= _REQUESTS_MAX or self._allowance < 1:
            busy = RateLimited(limit=rate, retry_after=1.0)
            return [Reply(Answer(frame.id, problem=problem_of(busy)))]
        self._requests += 1
        self._allowance -= 1
        if self.phase == "joining":
            return self._ask(
                "answered", CallAsJoiner(self.mesh_id, self._joiner_key, frame.method, frame.params), frame.id
            )
        return self._ask("answered", CallMethod(self.mesh_id, self.member_id, frame.method, frame.params), frame.id)

    def _on_answered(self, request_id: int, done: Done | None, error: ParleyError | None) -> list[Effect]:
        self._requests -= 1
        if done is None:
            return [Reply(Answer(request_id, problem=problem_of(error or InternalError())))]
        effects: list[Effect] = [Reply(Answer(request_id, done.result))]
        if done.woken:
            effects.append(Wake(done.woken))
        return effects + self._for_others(done)

    def _claim(self, now: int) -> list[Effect]:
        room = self._setting.policy.window - len(self._pushed)
        if self.phase != "ready" or self._claiming or not self._woken or room <= 0:
            return []
        self._claiming, self._woken, self._claimed_at = True, False, now
        lease_ms = self._setting.policy.lease_ms
        return self._ask("claimed", ClaimDeliveries(self.member_id, self.connection_id, room, lease_ms), room)

    def _on_claimed(self, room: int, pushes: list[Push] | None, error: ParleyError | None, now: int) -> list[Effect]:
        self._claiming = False
        if pushes is None or error is not None:
            return []  # the timer tries again
        until = now + self._setting.policy.lease_ms
        self._pushed.update((each.delivery_id, until) for each in pushes)
        if len(pushes) == room:
            self._woken = True
        return [*(Reply(each) for each in pushes), *self._claim(now)]

    def _on_acked(self, delivery_ids: tuple[int, ...], error: ParleyError | None, now: int) -> list[Effect]:
        self._acking -= len(delivery_ids)
        if error is not None:
            return []  # they come again when their lease is over
        for delivery_id in delivery_ids:
            self._pushed.pop(delivery_id, None)
        return self._claim(now)

    def _after_close(self, kind: str, outcome: Outcome[Any]) -> list[Effect]:
        """What was done for a connection that is gone still matters to others."""
        if outcome.error is not None:
            return []
        if kind == "ended":
            woken = cast("tuple[str, ...]", outcome.value)
            return [Wake(woken)] if woken else []
        if kind == "greeted" and cast("Greeted", outcome.value).member is not None:
            return self._ask("ended", EndConnection(self.connection_id))
        if kind == "claimed" and outcome.value:
            return self._ask("ended", EndConnection(self.connection_id))
        if kind == "accepted":
            outcome_value = cast("AcceptOutcome", outcome.value)
            return [Wake(outcome_value.woken)] if outcome_value.woken else []
        return self._for_others(cast("Done", outcome.value)) if kind == "answered" else []

    def _for_others(self, done: Done) -> list[Effect]:
        effects: list[Effect] = [Tell(self.mesh_id, notice) for notice in done.notices]
        if done.ended:
            effects.append(Expel(done.ended))
        if done.kicked:
            effects.append(Kick(done.kicked))
        return effects

    def _ask(self, kind: str, rule: Rule[Any], about: Any = None) -> list[Effect]:
        self._tokens += 1
        self._waiting[self._tokens] = (kind, about)
        return [Ask(self._tokens, rule)]

    def _end(self, error: ParleyError, code: int) -> list[Effect]:
        if self.phase == "closed":
            return []
        self.phase = "closed"
        return [Reply(ErrorFrame(problem_of(error), code)), Close(code, error.code)]
