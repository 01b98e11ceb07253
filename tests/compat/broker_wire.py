"""What a broker says and takes, found by members without a daemon: frames, methods, routes and close codes; and what a
daemon says, found by listening in between.

Frames are written out as they cross the wire. They belong to one version of the protocol, which ``hello`` names.
"""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Thread
from typing import Any, Final, Self

import httpx
import msgspec
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.sync.connection import Connection
from websockets.sync.server import ServerConnection, serve

from parley.core import sealing
from parley.core.fingerprint import request_fingerprint
from parley.wire.mesh_http import Joined
from tests.broker.process import SECONDS, Person, Process
from tests.compat.contract import Shape, members_of
from tests.compat.recorder import Recorder

VERSION: Final = 1
REQUIRED: Final = ["client_message_id_dedupe", "concurrent_connection_policy"]
OPTIONAL: Final = ["member_keypair_rotated_event", "key_epoch", "max_payload", "nothing"]
MAPS: Final = ("grants", "presence")


class Heard:
    """The frames of all connections, by type; notices by name, and answers without what methods return."""

    def __init__(self) -> None:
        self._shapes: dict[str, Shape] = {}

    def add(self, frame: dict[str, Any]) -> None:
        name = frame["type"]
        if name == "notice":
            name = f"notice {frame['name']}"
        elif name == "answer" and frame["result"] is not None:
            frame = {**frame, "result": {}}
        self._shapes.setdefault(name, Shape(MAPS)).add(_without_details(frame))

    def seen(self) -> dict[str, Any]:
        return {name: shape.seen() for name, shape in self._shapes.items()}


def _without_details(frame: dict[str, Any]) -> dict[str, Any]:
    """Details belong to a code, and are kept with it."""
    problem = frame.get("problem")
    return frame if problem is None else {**frame, "problem": {**problem, "details": {}}}


class Line:
    """One connection to a broker, in JSON."""

    def __init__(self, socket: ClientConnection, heard: Heard) -> None:
        self._socket = socket
        self._heard = heard
        self._number = 0
        self.broker_id, self.nonce = "", ""

    def say(self, frame: dict[str, Any]) -> None:
        self._socket.send(json.dumps(frame))

    def hear(self, *types: str) -> dict[str, Any]:
        """The next frame of these types."""
        while True:
            frame = json.loads(self._socket.recv(SECONDS))
            self._heard.add(frame)
            if not types or frame["type"] in types:
                return frame

    def hear_notice(self, name: str, fits: Callable[[dict[str, Any]], bool]) -> None:
        """Waits for a notice that fits."""
        while not ((notice := self.hear("notice"))["name"] == name and fits(notice["data"])):
            pass

    def hear_about(self, client_id: str) -> dict[str, Any]:
        """What became of a message that was sent."""
        while (answer := self.hear("accepted", "refused"))["client_message_id"] != client_id:
            pass
        return answer

    def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        self._number += 1
        self.say({"type": "request", "id": self._number, "method": method, "params": params or {}})
        while (answer := self.hear("answer"))["id"] != self._number:
            pass
        return answer

    def is_understood(self, frame: Any) -> bool:
        """Whether the broker reads this as a frame of the protocol; it answers what it reads in order."""
        self._number += 1
        self.say(frame)
        self.say({"type": "ping", "id": self._number})
        while (heard := self.hear("pong", "error"))["type"] == "pong" and heard["id"] != self._number:
            pass
        if heard["type"] == "pong":
            return True
        self.hear("pong")
        return False

    def closed_with(self) -> int:
        try:
            while True:
                self.hear()
        except ConnectionClosed as closed:
            return 0 if closed.rcvd is None else closed.rcvd.code


class Broker:
    """A running broker as members meet it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.heard = Heard()
        self.recorder = Recorder(MAPS)
        self._http = httpx.Client(base_url=process.http, timeout=SECONDS, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def request(self, route: str, body: Any = None, token: bool = True, **headers: str) -> Any:
        """Calls a route and keeps what it answers."""
        answer = self._request(route, body, {**headers, **({"authorization": self._bearer} if token else {})})
        found = answer.json()
        if answer.is_success:
            return self.recorder.answer(route, answer.status_code, found)
        self.recorder.refusal(route, answer.status_code, found, found["code"])
        return found

    def members(self, route: str, example: dict[str, Any]) -> None:
        """Finds what the body of a route may hold."""

        def taken(body: Any) -> bool:
            answer = self._request(route, body, {"authorization": self._bearer})
            return answer.is_success or answer.json()["code"] != "INVALID_INPUT"

        self.recorder.members(route, example, taken)

    def join(self, name: str, invite: str) -> Person:
        person = Person(name)
        body = msgspec.to_builtins(person.asks_to_join(invite.partition(".")[0]))
        joined = self.request("POST /v1/join", body, token=False)
        person.joined = msgspec.convert(joined, Joined)
        return person

    @contextmanager
    def line(self) -> Iterator[Line]:
        """A connection that was challenged."""
        with connect(f"{self.process.url}/ws", open_timeout=SECONDS, proxy=None) as socket:
            line = Line(socket, self.heard)
            challenge = line.hear("challenge")
            line.broker_id, line.nonce = challenge["broker_id"], challenge["nonce"]
            yield line

    @contextmanager
    def greeted(self, person: Person, instance: str = "") -> Iterator[Line]:
        with self.line() as line:
            line.say(hello(line, person, instance or f"i-{time.monotonic_ns()}"))
            line.hear("welcome")
            yield line

    @contextmanager
    def ready(self, person: Person) -> Iterator[Line]:
        with self.greeted(person) as line:
            line.say({"type": "negotiate", "require": REQUIRED, "optional": OPTIONAL})
            line.hear("features")
            yield line

    def _request(self, route: str, body: Any, headers: dict[str, str]) -> httpx.Response:
        method, _, path = route.partition(" ")
        return self._http.request(method, path, json=body, headers=headers)

    @property
    def _bearer(self) -> str:
        return f"Bearer {self.process.token}"


def hello(line: Line, person: Person, instance: str) -> dict[str, Any]:
    """Who connects, signed over the nonce."""
    assert person.joined is not None
    mesh_id, member_id = person.joined.mesh_id, person.member_id
    signed = (
        "parley broker hello 1",
        line.broker_id,
        line.nonce,
        mesh_id,
        member_id,
        person.pubkey,
        instance,
        "host",
    )
    return {
        "type": "hello",
        "mesh_id": mesh_id,
        "member_id": member_id,
        "pubkey": person.pubkey,
        "signature": sealing.sign(person.seed, "\n".join(signed).encode()).hex(),
        "instance_id": instance,
        "host_fingerprint": "host",
        "protocol": VERSION,
        "daemon_version": "1.0",
    }


class Tap:
    """Stands between a daemon and its broker, and keeps what the daemon says."""

    def __init__(self, broker_url: str) -> None:
        self.said: list[dict[str, Any]] = []
        self._broker_url = broker_url
        self._server = serve(self._relay, "127.0.0.1", 0, compression=None)
        self._thread = Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(SECONDS)

    def seen(self, requests: frozenset[str]) -> dict[str, Any]:
        """The frames by type, and these requests by method."""
        shapes: dict[str, Shape] = {}
        for frame in self.said:
            kind, method = frame["type"], frame.get("method", "")
            name = f"{kind} {method}" if method else kind
            if kind in ("hello", "roster_hello", "negotiate", "send", "delivery_ack") or method in requests:
                shapes.setdefault(name, Shape(MAPS)).add(frame)
        return {name: shape.seen() for name, shape in shapes.items()}

    def _relay(self, daemon: ServerConnection) -> None:
        with connect(f"{self._broker_url}/ws", open_timeout=SECONDS, proxy=None) as broker:
            back = Thread(target=_pump, args=(broker, daemon, None))
            back.start()
            _pump(daemon, broker, self.said)
            back.join(SECONDS)


def _pump(source: Connection, target: Connection, kept: list[dict[str, Any]] | None) -> None:
    """Hands on what one side says until it says no more."""
    with suppress(ConnectionClosed):
        for text in source:
            if kept is not None:
                kept.append(json.loads(text))
            target.send(text)
    target.close()


def broker_contract(process: Process) -> dict[str, Any]:
    """Everything of one protocol version, in an order in which each call finds what it needs."""
    with closing(Broker(process)) as broker:
        people = _founded(broker)
        _routes(broker)
        said, closes = _connections(broker, people)
        methods = _methods(broker, people)
        closes |= _endings(broker, people, methods)
        return {
            "http": broker.recorder.contract(),
            "from_daemon": said,
            "from_broker": broker.heard.seen(),
            "methods": methods.contract(),
            "close_codes": closes,
        }


def _founded(broker: Broker) -> dict[str, Person]:
    """A mesh with an owner and a few members."""
    founded = broker.request("POST /v1/meshes", {"slug": "wire", "name": "Wire"})
    people = {"ann": broker.join("ann", founded["invite"])}
    invite = people["ann"].invites(uses=10)
    with broker.ready(people["ann"]) as line:
        line.ask("create_invite", {"invite": invite})
        for name in ("bob", "cid", "dan", "eve", "fay"):
            people[name] = broker.join(name, invite)
        broker.join("bob", invite)  # who is a member already is told so
        line.hear_notice("member_joined", lambda _: True)
        with broker.ready(people["bob"]) as other:
            line.hear_notice("peers_changed", lambda data: bool(data["connected"]))
            other.ask("set_presence", {"status": "idle"})
            line.hear_notice("peers_changed", lambda data: bool(data["presence"]))
        line.hear_notice("peers_changed", lambda data: bool(data["disconnected"]))
    return people


def _routes(broker: Broker) -> None:
    broker.request("GET /v1/health")
    broker.request("GET /v1/ready")
    broker.request("GET /v1/meshes")
    broker.request("GET /v1/meshes", token=False)
    broker.members("POST /v1/meshes", {"slug": "probed", "name": "Probed"})
    broker.request("POST /v1/meshes", {"slug": "wire", "name": "Wire"})
    broker.request("POST /v1/meshes", {"slug": "Not A Slug", "name": "Wire"})
    limits = {"slug": "wire", "members_max": 100, "bytes_max": 10_000_000}
    broker.members("PATCH /v1/meshes", limits)
    broker.request("PATCH /v1/meshes", limits)
    broker.request("PATCH /v1/meshes", limits, token=False)
    broker.request("PATCH /v1/meshes", {**limits, "slug": "nope"})
    stranger = msgspec.to_builtins(Person("stranger").asks_to_join("parley-invite:nonsense"))
    broker.request("POST /v1/join", stranger)
    founded = broker.request("POST /v1/meshes", {"slug": "probed", "name": "Probed"})
    owner = Person("owner").asks_to_join(founded["invite"])
    broker.members("POST /v1/join", msgspec.to_builtins(owner))
    late = Person("late").asks_to_join(founded["invite"])
    broker.request("POST /v1/join", msgspec.to_builtins(late))
    for method, path in (("GET", "/v1/nothing"), ("GET", "/v1/join")):
        broker.request(f"{method} {path}")
    broker.request("GET /v1/health", origin="http://localhost")
    for path in ("/metrics", "/openapi.json"):  # each has a test of what stands in it
        shown = httpx.get(f"{broker.process.http}{path}", timeout=SECONDS, trust_env=False)
        broker.recorder.answer(f"GET {path}", shown.status_code, shown.text)


def _connections(broker: Broker, people: dict[str, Person]) -> tuple[dict[str, Any], dict[str, int]]:
    """What each frame of a daemon may hold; and which codes end a connection that has not begun well."""
    ann, bob = people["ann"], people["bob"]

    def hello_taken(frame: dict[str, Any]) -> bool:
        with broker.line() as line:
            line.say(frame)
            return line.hear("welcome", "error").get("problem", {}).get("code") != "INVALID_INPUT"

    def negotiate_taken(frame: dict[str, Any]) -> bool:
        with broker.greeted(bob) as line:
            line.say(frame)
            return line.hear("features", "error")["type"] == "features"

    said: dict[str, Any] = {}
    closes: dict[str, int] = {}
    with broker.line() as line:
        greeting = hello(line, ann, "i-1")
        line.say({**greeting, "signature": "0" * 128})
        closes["a signature that is not the member's"] = line.closed_with()
    said["hello"] = members_of(greeting, hello_taken)
    said["negotiate"] = members_of(
        {"type": "negotiate", "require": list(REQUIRED), "optional": list(OPTIONAL)}, negotiate_taken
    )
    with broker.line() as line:
        line.say({**hello(line, ann, "i-1"), "protocol": VERSION + 1_000})
        closes["a protocol that the broker does not speak"] = line.closed_with()
    with broker.line() as line:
        line.say({"type": "nonsense"})
        closes["no frame before hello"] = line.closed_with()
    with broker.greeted(ann) as line:
        line.say({"type": "negotiate", "require": ["nonsense"]})
        closes["a feature that the broker has not"] = line.closed_with()
    with broker.ready(ann) as line, broker.ready(ann):
        closes["the member connected from elsewhere"] = line.closed_with()
    with broker.ready(bob) as line, broker.ready(ann) as sender:
        for frame, choices in _frames(ann, bob):
            said[frame["type"]] = members_of(frame, sender.is_understood, **choices)
        _exchange(sender, line, ann, bob)
    return said, closes


def _frames(ann: Person, bob: Person) -> list[tuple[dict[str, Any], dict[str, tuple[Any, ...]]]]:
    """What a daemon may say once it is connected, and the values that some members choose from."""
    problem = {"code": "X", "error": "x", "status": 400, "transient": False, "details": {}}
    return [
        (_message(ann, bob, "probe", meta={}), {"priority": ("now", "next", "low"), "kind": ("dm", "topic", "queue")}),
        (
            {"type": "delivery_ack", "deliveries": [{"delivery_id": 1, "status": "stored"}]},
            {"deliveries[].status": ("stored", "undecryptable")},
        ),
        ({"type": "request", "id": 1, "method": "mesh", "params": {}}, {}),
        ({"type": "ping", "id": 1}, {}),
        ({"type": "pong", "id": 1}, {}),
        ({"type": "error", "problem": problem, "close_code": 1000}, {}),
    ]


def _message(ann: Person, bob: Person, client_id: str, body: bytes = b"sealed", **more: Any) -> dict[str, Any]:
    frame: dict[str, Any] = {
        "type": "send",
        "client_message_id": client_id,
        "kind": "dm",
        "ref": bob.pubkey,
        "body": base64.b64encode(body).decode(),
        "priority": "next",
        "reply_to": "bm_1",
        "meta": {"a": 1},
        "mentions": [bob.pubkey],
        "key_epoch": 1,
        "sender_key": ann.pubkey,
        **more,
    }
    hashed = {name: frame[name] for name in ("meta", "mentions", "key_epoch") if frame[name]}
    given = {name: frame[name] or "" for name in ("kind", "ref", "priority", "reply_to")}
    return {**frame, "fingerprint": request_fingerprint(**given, meta=hashed, body=body).hex()}


def _exchange(sender: Line, recipient: Line, ann: Person, bob: Person) -> None:
    """A message that is accepted, comes again and is refused; and one that reaches its recipient."""
    for number in range(2):
        sender.say(_message(ann, bob, "m-1", reply_to=None, key_epoch=None))
        answer = sender.hear_about("m-1")
        assert answer.get("status") == 201 - number, answer
    sender.say(_message(ann, bob, "m-1", b"another"))
    assert sender.hear_about("m-1")["type"] == "refused"
    sender.say(_message(ann, bob, "m-2"))
    assert sender.hear_about("m-2")["type"] == "accepted"
    found: set[str] = set()
    while not {"m-1", "m-2"} <= found:
        push = recipient.hear("push")
        found.add(push["message"]["client_message_id"])
        recipient.say({"type": "delivery_ack", "deliveries": [{"delivery_id": push["delivery_id"]}]})
    deadline = time.monotonic() + SECONDS
    while sender.ask("message_status", {"client_message_id": "m-1"})["result"]["deliveries"][0]["settled_at"] is None:
        assert time.monotonic() < deadline


def _methods(broker: Broker, people: dict[str, Person]) -> Recorder:
    """What every method takes and returns. Members go at the end."""
    bob, cid, eve = people["bob"], people["cid"], people["eve"]
    seen = Recorder(MAPS)
    with broker.ready(people["ann"]) as owner, broker.ready(bob) as member, broker.ready(cid) as other:

        def call(line: Line, method: str, params: dict[str, Any] | None = None) -> Any:
            return asked(seen, line, method, params)

        def probe(line: Line, method: str, example: dict[str, Any], **choices: tuple[Any, ...]) -> None:
            seen.members(method, example, lambda params: _is_taken(line.ask(method, params)), **choices)
            call(line, method, example)

        probe(owner, "subscribe", {"topic": "alerts"})
        call(member, "subscribe", {"topic": "alerts"})
        call(member, "topics")
        probe(member, "unsubscribe", {"topic": "alerts"})
        probe(member, "join_group", {"group": "crew/night"})
        presence = {"status": "idle", "summary": "at work", "for_ms": 60_000}
        probe(member, "set_presence", presence, status=("idle", "working", "dnd"))
        probe(member, "set_profile", {"visible": True, "sealed": "c2VhbGVk", "key_epoch": 1})
        probe(member, "grant", {"member_id": cid.member_id, "capabilities": ["dm"]})
        probe(member, "block", {"member_id": cid.member_id})
        call(member, "grants")
        probe(member, "unblock", {"member_id": cid.member_id})
        call(member, "block", {"member_id": bob.member_id})
        probe(owner, "message_status", {"client_message_id": "m-1"})
        probe(owner, "messages_reached", {"client_message_ids": ["m-1", "nothing"]})
        call(owner, "message_status", {"client_message_id": "nothing"})
        call(member, "redeliver")
        call(member, "keys_wanted")
        probe(owner, "give_key", {"member_id": bob.member_id, "key_epoch": 1, "sealed": "c2VhbGVk"})
        call(member, "keys")
        probe(member, "refuse_key", {"key_epoch": 1, "giver_id": people["ann"].member_id})
        call(member, "mesh")
        call(owner, "peers")
        call(owner, "members")
        probe(member, "leave_group", {"group": "crew/night"})
        probe(owner, "create_invite", {"invite": people["ann"].invites(uses=2)})
        call(owner, "invites")
        probe(owner, "revoke_invite", {"invite_id": "inv_ann_member_2"})
        call(owner, "invites")
        call(member, "invites")
        probe(owner, "set_role", {"member_id": eve.member_id, "role": "member"}, role=("owner", "admin", "member"))
        policies = ("prefer_oldest", "allow_concurrent", "prefer_newest")
        probe(owner, "set_connection_policy", {"policy": "prefer_newest"}, policy=policies)
        probe(owner, "audit", {"after": 0, "limit": 100})
        call(owner, "nothing")
        probe(other, "rotate_key", _rotation(cid))
    return seen


def _rotation(person: Person) -> dict[str, Any]:
    """A new key for a member, which it has from now on."""
    assert person.joined is not None
    person.seed = sealing.new_key(lambda count: b"r" * count)
    person.pubkey = sealing.public_key(person.seed).hex()
    signed = f"parley key rotation 1\n{person.joined.mesh_id}\n{person.member_id}\n{person.pubkey}".encode()
    return {"pubkey": person.pubkey, "signature": sealing.sign(person.seed, signed).hex(), "proof": "0" * 64}


def _endings(broker: Broker, people: dict[str, Person], seen: Recorder) -> dict[str, int]:
    """The codes of connections that others end, and the methods that end them."""
    closes: dict[str, int] = {}
    with broker.ready(people["ann"]) as owner:
        for method, name, why in (
            ("kick", "bob", "an admin closed the connection"),
            ("revoke", "dan", "the member was removed"),
            ("ban", "eve", "the member was banned"),
        ):
            with broker.ready(people[name]) as line:
                asked(seen, owner, method, {"member_id": people[name].member_id})
                closes[why] = line.closed_with()
            example = {"member_id": people[name].member_id}
            seen.members(method, example, lambda params, method=method: _is_taken(owner.ask(method, params)))
        example = {"member_id": people["eve"].member_id}
        seen.members("unban", example, lambda params: _is_taken(owner.ask("unban", params)))
        asked(seen, owner, "unban", example)
        with broker.ready(people["fay"]) as line:
            asked(seen, line, "leave")
            closes["the member left"] = line.closed_with()
        owner.ask("set_connection_policy", {"policy": "prefer_oldest"})
        with broker.line() as second:
            second.say(hello(second, people["ann"], "i-2"))
            closes["the member is connected already"] = second.closed_with()
    return closes


def asked(seen: Recorder, line: Line, method: str, params: dict[str, Any] | None = None) -> Any:
    """The result of a method, kept, as is a refusal."""
    answer = line.ask(method, params)
    problem = answer["problem"]
    if problem is None:
        return seen.answer(method, "result", answer["result"])
    seen.refusal(method, problem["status"], problem, problem["code"])
    return None


def _is_taken(answer: dict[str, Any]) -> bool:
    return answer["problem"] is None or answer["problem"]["code"] != "INVALID_INPUT"
