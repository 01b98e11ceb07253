"""Drives sessions by hand: what they ask of the store is done at once, or held back when a test wants to."""

import hashlib
from typing import Any, TypeVar

from parley.broker.fanout import Fanout
from parley.broker.rules.members import Member, Role, add_member, create_mesh
from parley.broker.session import Ask, Close, Effect, Expel, Joined, Kick, Reply, Session, Setting, Tell, Wake
from parley.broker.store import BrokerStore
from parley.core import sealing
from parley.core.clock import ManualClock
from parley.wire.broker import (
    Answer,
    Challenge,
    FromBroker,
    FromDaemon,
    Hello,
    Negotiate,
    Request,
    hello_bytes,
)

F = TypeVar("F")
REQUIRED = ["client_message_id_dedupe", "concurrent_connection_policy"]


def seed_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def pubkey_of(name: str) -> str:
    return sealing.public_key(seed_of(name)).hex()


def signed_hello(member: Member, challenge: Challenge, instance: str = "i1", host: str = "", **changes: Any) -> Hello:
    """A hello as the member's daemon says it; ``changes`` are made after it was signed."""
    values: dict[str, Any] = {
        "mesh_id": member.mesh_id,
        "member_id": member.member_id,
        "pubkey": member.pubkey,
        "signature": "0" * 128,
        "instance_id": instance,
        "host_fingerprint": host,
    }
    said = hello_bytes(nonce=challenge.nonce, broker_id=challenge.broker_id, hello=Hello(**values))
    values["signature"] = sealing.sign(seed_of(member.display_name), said).hex()
    return Hello(**{**values, **changes})


class DrivenMesh:
    """A mesh of Ann (its owner), Bob and Cid, and all that connects to it."""

    def __init__(self, store: BrokerStore, clock: ManualClock, instance: str = "b1") -> None:
        self.store = store
        self.clock = clock
        self.setting = Setting(store.broker_id, instance, store.policy, sealing.verify)
        self.fanout = Fanout()
        self.lines: dict[str, Line] = {}
        self._count = 0
        self.mesh_id = store.call(lambda tx: create_mesh(tx, "red", "Red", store.policy)).mesh_id
        self.ann, self.bob, self.cid = self.join("ann", "owner"), self.join("bob"), self.join("cid")

    @property
    def now(self) -> int:
        return round(self.clock.monotonic() * 1000)

    def join(self, name: str, role: Role = "member") -> Member:
        return self.store.call(lambda tx: add_member(tx, self.mesh_id, pubkey_of(name), name, role))

    def connect(self) -> "Line":
        """A connection that has been challenged."""
        self._count += 1
        line = Line(self, Session(self.setting, f"conn{self._count}", f"{self._count:064x}", self.now))
        self.lines[line.session.connection_id] = line
        line.perform(line.session.open())
        return line

    def ready(self, member: Member, instance_id: str = "i1") -> "Line":
        """A connection on which the member can send and get."""
        line = self.connect()
        line.say(signed_hello(member, line.challenge, instance_id))
        line.say(Negotiate(REQUIRED))
        line.heard.clear()
        return line

    def tick(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for line in list(self.lines.values()):
            line.perform(line.session.on_timer(self.now))

    def wake(self, member_ids: tuple[str, ...]) -> None:
        for connection_id in self.fanout.of_members(member_ids):
            line = self.lines[connection_id]
            line.perform(line.session.on_woken(self.now))


class Line:
    """One connection as its daemon hears it."""

    def __init__(self, driven: DrivenMesh, session: Session) -> None:
        self.driven = driven
        self.session = session
        self.heard: list[FromBroker] = []
        self.closed: int | None = None
        self.held: list[Ask] | None = None
        """Set to a list, asks gather here instead of being done."""

    @property
    def challenge(self) -> Challenge:
        return self.last(Challenge)

    def last(self, kind: type[F]) -> F:
        """The newest frame of this kind."""
        return [each for each in self.heard if isinstance(each, kind)][-1]

    def all(self, kind: type[F]) -> list[F]:
        return [each for each in self.heard if isinstance(each, kind)]

    def say(self, frame: FromDaemon) -> None:
        self.perform(self.session.on_frame(frame, self.driven.now))

    def request(self, method: str, **params: Any) -> Answer:
        self.say(Request(7, method, params))
        return self.last(Answer)

    def say_request(self, method: str, **params: Any) -> None:
        """A request after which there may be nobody left to be answered."""
        self.say(Request(7, method, params))

    def result(self, method: str, **params: Any) -> Any:
        answer = self.request(method, **params)
        assert answer.problem is None, answer.problem
        return answer.result

    def code(self, method: str, **params: Any) -> str:
        """The code that a request is refused with."""
        problem = self.request(method, **params).problem
        assert problem is not None
        return problem.code

    def hang_up(self) -> None:
        """The socket is gone."""
        self.driven.fanout.remove(self.session.connection_id)
        del self.driven.lines[self.session.connection_id]
        self.perform(self.session.on_closed())

    def settle(self) -> None:
        """Does what was held back."""
        held, self.held = self.held or [], None
        for ask in held:
            self.perform([ask])

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        driven, session = self.driven, self.session
        match effect:
            case Reply(frame):
                self.heard.append(frame)
            case Close(code, _):
                self.closed = code
                self.hang_up()
            case Ask() if self.held is not None:
                self.held.append(effect)
            case Ask(token, rule):
                (outcome,) = driven.store.commit([rule])
                self.perform(session.on_result(token, outcome, driven.now))
            case Joined(mesh_id, member_id, replaced):
                driven.fanout.add(session.connection_id, mesh_id, member_id)
                for each in replaced:
                    if each in driven.lines:
                        driven.lines[each].perform(driven.lines[each].session.on_replaced())
            case Wake(member_ids):
                driven.wake(member_ids)
            case Expel(member_ids):
                for connection_id in driven.fanout.of_members(member_ids):
                    driven.lines[connection_id].perform(driven.lines[connection_id].session.on_expelled())
            case Kick(member_ids):
                for connection_id in driven.fanout.of_members(member_ids):
                    driven.lines[connection_id].perform(driven.lines[connection_id].session.on_kicked())
            case Tell(mesh_id, notice):
                for connection_id in driven.fanout.of_mesh(mesh_id):
                    driven.lines[connection_id].perform(driven.lines[connection_id].session.on_notice(notice))
