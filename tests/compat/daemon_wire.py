"""What the local API of a daemon takes and answers, found by calling every route of a running one."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from parley.client.daemon import DaemonClient
from parley.wire.daemon_answers import OutboxDetail
from tests.broker.process import SECONDS
from tests.compat.contract import Shape
from tests.compat.recorder import Recorder
from tests.daemon.homes import Home, World

MAPS: Final = ("brokers", "broker_features_negotiated")
TOKEN: Final = "5" * 64
LONG_AGO, FAR_OFF = "1999-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
SETTINGS: Final = """
[ipc]
tcp_in_container = true
rate_per_second = 100000
body_bytes_max = 65536
"""
Query = dict[str, str]


class Wire:
    """The daemon's socket, with what was seen of it."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.recorder = Recorder(MAPS)

    def ask(self, route: str, *, body: Any = None, headers: dict[str, str] | None = None, **values: str) -> Any:
        """Calls a route and keeps what it answers. ``values`` go into its path, and those left over into its query."""
        answer = self._ask(route, body, headers, values)
        if answer.is_success:
            return self.recorder.answer(route, answer.status_code, answer.json())
        return self.refused(route, answer)

    def refused(self, route: str, answer: httpx.Response) -> Any:
        """Keeps a refusal."""
        found = json.loads(answer.read())
        self.recorder.refusal(route, answer.status_code, found, found["code"])
        return found

    def members(self, route: str, example: dict[str, Any], **choices: tuple[Any, ...]) -> None:
        """Finds what the body of a route may hold."""
        self.recorder.members(route, example, lambda body: self._is_taken(route, body), **choices)

    def queries(self, route: str, base: Query | None = None, **values: str) -> None:
        """Finds which parameters change an answer."""
        told = {name: self._shown(route, {}, {**(base or {}), name: value}) for name, value in values.items()}
        without = self._shown(route, {}, base or {})
        self.recorder.notes(route, query=[name for name, answer in told.items() if answer != without])

    def headers(self, route: str, *, body: Any = None, base: Query | None = None, **values: str) -> None:
        """Finds which headers change an answer."""
        named = {name.replace("_", "-"): value for name, value in values.items()}
        without = self._shown(route, {}, base or {}, body)
        told = {name: self._shown(route, {name: value}, base or {}, body) for name, value in named.items()}
        self.recorder.notes(route, headers=[name for name, answer in told.items() if answer != without])

    def _shown(self, route: str, headers: dict[str, str], query: Query, body: Any = None) -> tuple[int, str]:
        answer = self._ask(route, body, headers, dict(query))
        return answer.status_code, answer.text

    def _is_taken(self, route: str, body: Any) -> bool:
        answer = self._ask(route, body, None, {})
        return answer.is_success or answer.json()["code"] != "INVALID_INPUT"

    def _ask(self, route: str, body: Any, headers: dict[str, str] | None, values: dict[str, str]) -> httpx.Response:
        method, _, path = route.partition(" ")
        for name in [name for name in values if f"{{{name}}}" in path]:
            path = path.replace(f"{{{name}}}", values.pop(name))
        return self.client.request(method, path, json=body, headers=headers, params=values)


@contextmanager
def wire_of(home: Home) -> Iterator[Wire]:
    """A home's daemon, by its socket."""
    transport = httpx.HTTPTransport(uds=str(home.folder / "daemon.sock"))
    with httpx.Client(base_url="http://localhost", transport=transport, timeout=SECONDS, trust_env=False) as client:
        yield Wire(client)


def daemon_contract(world: World, bob: Home) -> dict[str, Any]:
    """Everything, in an order in which each call finds what it needs."""
    world.ann.until(_has_every_key)
    with bob.client() as client:
        client.send("ann", "as far as bob has read", mesh="team")
    world.ann.until(lambda client: any(mesh.confirmed_at for mesh in client.meshes().meshes))
    with wire_of(world.ann) as wire, wire_of(bob) as other:
        _about(wire)
        _meshes(wire, world)
        _sessions(wire)
        _sending(wire, world.ann, bob)
        _arriving(wire, other, world.ann)
        _outbox(wire, world.ann)
        events = _events(wire, bob)
        _refusals(wire, world.ann)
        _discarding(wire)
        return {**wire.recorder.contract(), "events": events}


def _has_every_key(client: DaemonClient) -> bool:
    """Whether all meshes are as far as they come by themselves."""
    return all(mesh.features and mesh.key_epoch for mesh in client.meshes().meshes)


def _about(wire: Wire) -> None:
    for path in ("version", "health", "compat", "meshes"):
        wire.ask(f"GET /v1/{path}")
    wire.ask("POST /v1/heartbeat")
    wire.ask("POST /v1/reload")
    for path in ("/v1/metrics", "/openapi.json"):  # each has a test of what stands in it
        shown = wire.client.get(path)
        wire.recorder.answer(f"GET {path}", shown.status_code, shown.text)


def _meshes(wire: Wire, world: World) -> None:
    founded = httpx.post(
        f"{world.process.http}/v1/meshes", json={"slug": "third", "name": "third"}, timeout=SECONDS, trust_env=False
    )
    invite = founded.json()["invite"]
    for topic in ("subscribe", "unsubscribe", "subscribe"):
        wire.ask(f"POST /v1/topic/{topic}", body={"topic": "alerts", "mesh": "team"})
        wire.ask(f"POST /v1/topic/{topic}", body={"topic": "alerts"})
        wire.members(f"POST /v1/topic/{topic}", {"topic": "alerts", "mesh": "team"})
    wire.ask("GET /v1/topic/list", mesh="team")
    wire.queries("GET /v1/topic/list", mesh="team")
    wire.ask("POST /v1/mesh/join", body={"invite": invite, "name": "ann"})
    world.ann.until(_has_every_key)
    wire.ask("POST /v1/mesh/join", body={"invite": invite, "name": "ann"})
    wire.members("POST /v1/mesh/join", {"invite": invite, "name": "ann"})
    wire.ask("POST /v1/mesh/join", body={"invite": "no invite", "name": "ann"})
    wire.ask("POST /v1/mesh/forget", body={"mesh": "third"})
    wire.ask("POST /v1/mesh/forget", body={"mesh": "third"})
    wire.members("POST /v1/mesh/forget", {"mesh": "third"})
    wire.ask("POST /v1/mesh/invite", body={"mesh": "team"})
    wire.members(
        "POST /v1/mesh/invite",
        {"role": "member", "uses": 1, "hours": 1.5, "mesh": "team"},
        role=("owner", "admin", "member"),
    )
    wire.ask("POST /v1/mesh/call", body={"method": "mesh", "mesh": "team"})
    wire.ask("POST /v1/mesh/call", body={"method": "nothing", "mesh": "team"})
    wire.members("POST /v1/mesh/call", {"method": "mesh", "params": {}, "mesh": "team"})
    wire.ask("POST /v1/mesh/rotate-keypair", body={"mesh": "side"})
    wire.ask("POST /v1/mesh/rotate-keypair", body={})
    wire.members("POST /v1/mesh/rotate-keypair", {"mesh": "side"})
    wire.ask("GET /v1/mesh/safety", mesh="team", peer="bob")
    wire.ask("GET /v1/mesh/safety", mesh="team", peer="nobody")
    wire.queries("GET /v1/mesh/safety", {"mesh": "team", "peer": "bob"}, mesh="side", peer="nobody")
    _rosters(wire, world)
    profile = {
        "status": "idle",
        "summary": "at work",
        "title": "engineer",
        "bio": "likes to test",
        "avatar": "https://example.org/ann.png",
        "capabilities": ["python"],
        "visible": True,
        "mesh": "team",
    }
    wire.ask("POST /v1/profile", body={})
    wire.members("POST /v1/profile", profile, status=("idle", "working", "dnd"))
    wire.ask("POST /v1/profile", body=profile)
    wire.ask("GET /v1/peers")
    wire.queries("GET /v1/peers", mesh="nope")


def _rosters(wire: Wire, world: World) -> None:
    """What is said and shown in a mesh that its members decide about."""
    founding = {"broker": world.process.http, "slug": "fourth", "name": "ann", "title": "Fourth", "creation_token": "t"}
    wire.ask("POST /v1/mesh/found", body=founding)
    wire.ask("POST /v1/mesh/found", body={**founding, "name": "Ann"})
    wire.members("POST /v1/mesh/found", {**founding, "slug": "fifth"})
    for path in ("info", "log"):
        wire.ask(f"GET /v1/mesh/{path}", mesh="team")
        wire.ask(f"GET /v1/mesh/{path}", mesh="side")
        wire.ask(f"GET /v1/mesh/{path}", mesh="nope")
        wire.queries(f"GET /v1/mesh/{path}", {"mesh": "team"}, mesh="side")
    wire.queries("GET /v1/mesh/log", {"mesh": "team"}, after="1", limit="1")
    wire.ask("POST /v1/mesh/rename", body={"name": "ann", "mesh": "team"})
    wire.ask("POST /v1/mesh/rename", body={"name": "bob", "mesh": "team"})
    wire.members("POST /v1/mesh/rename", {"name": "ann", "mesh": "team"})
    wire.ask("POST /v1/mesh/settle", body={"mesh": "team"})
    wire.members("POST /v1/mesh/settle", {"mesh": "team"})
    wire.ask("POST /v1/mesh/verify", body={"peer": "bob", "mesh": "team"})
    wire.ask("POST /v1/mesh/verify", body={"peer": "bob", "mesh": "team", "confirm": True})
    wire.members("POST /v1/mesh/verify", {"peer": "bob", "confirm": True, "mesh": "team"})
    for slug in ("fourth", "fifth"):
        wire.ask("POST /v1/mesh/forget", body={"mesh": slug})


def _sessions(wire: Wire) -> None:
    session = {
        "token": TOKEN,
        "session_id": "s-1",
        "display_name": "reviewer",
        "mesh": "team",
        "pid": os.getpid(),
        "cwd": "/",
        "role": "reads",
        "groups": ["crew"],
    }
    wire.members("POST /v1/sessions/register", session)
    wire.ask("POST /v1/sessions/register", body={"token": "6" * 64, "session_id": "s-2"})
    wire.ask("POST /v1/sessions/register", body=session)
    wire.ask("POST /v1/sessions/register", body={**session, "mesh": "nope"})
    wire.ask("GET /v1/sessions")
    wire.ask("GET /v1/sessions/me", headers={"x-parley-session": TOKEN})
    wire.ask("GET /v1/sessions/me")
    wire.headers("GET /v1/sessions/me", x_parley_session=TOKEN)
    wire.ask("DELETE /v1/sessions/{token}", token="6" * 64)


def _sending(wire: Wire, ann: Home, bob: Home) -> None:
    key = bob.asks("mesh", "list")["meshes"][0]["pubkey"]
    message = {
        "to": key,
        "message": "hello",
        "priority": "next",
        "meta": {},
        "reply_to_id": "bm_1",
        "replyToId": "bm_1",
        "mentions": [key],
        "client_message_id": "m-0",
        "mesh": "team",
        "to_session": "s-1",
    }
    wire.members("POST /v1/send", message, priority=("now", "next", "low"))
    posted = {name: value for name, value in message.items() if name not in ("to", "replyToId")}
    posted |= {"topic": "alerts", "client_message_id": "p-0"}
    wire.members("POST /v1/topic/post", posted, priority=("now", "next", "low"))
    for route, body in (
        ("POST /v1/send", {"to": "bob", "mesh": "team", "message": "hello"}),
        ("POST /v1/topic/post", {"topic": "alerts", "mesh": "team", "message": "hello"}),
    ):
        once = {**body, "client_message_id": route[-4:]}
        wire.ask(route, body=once)
        ann.until(lambda client, name=route[-4:]: reached(client.outbox_row(name)))
        wire.ask(route, body=once)
        wire.ask(route, body={**once, "message": "another"})
        wire.ask(route, body=once, headers={"idempotency-key": "other"})
        wire.ask(route, body={**body, "mesh": "nope"})
        wire.ask(route, body={})
        wire.headers(route, body=once, idempotency_key="other", x_parley_session="7" * 64)
    wire.ask("POST /v1/send", body={"to": "nobody", "mesh": "team", "message": "hello"})
    wire.ask("POST /v1/send", body={"to": "*", "message": "hello"})


def reached(row: OutboxDetail) -> bool:
    """Whether everybody has the message."""
    return row.deliveries is not None and all(each.settled_at for each in row.deliveries)


def _arriving(wire: Wire, other: Wire, ann: Home) -> None:
    me = ann.asks("mesh", "members", "--mesh", "team")["members"][0]["pubkey"]
    session = {"x-parley-session": TOKEN}
    other.ask(
        "POST /v1/sessions/register",
        body={"token": TOKEN, "session_id": "b-1", "display_name": "bob", "role": "writes"},
    )
    other.ask("POST /v1/topic/subscribe", body={"topic": "alerts"})
    for number, body in enumerate(
        (
            {"to": "ann", "message": "note one", "meta": {"a": 1}},
            {"to": "#alerts", "message": "note two words", "mentions": [me], "reply_to_id": "bm_1"},
            {"to": "ann", "message": "note three", "to_session": "s-1"},
        )
    ):
        other.ask("POST /v1/send", body=body, headers=session if number == 0 else None)
    for text in ("one", "two words", "three"):
        ann.gets(f"note {text}")
    unmarked = {"mark_seen": "false"}
    found = wire.ask("GET /v1/inbox", mark_seen="false")["items"]
    wire.ask("POST /v1/inbox/seen", body={"ids": [found[0]["id"]]})
    wire.members("POST /v1/inbox/seen", {"ids": ["nothing"]})
    filters = {
        "mesh": "nope",
        "since": FAR_OFF,
        "topic": "alerts",
        "from": "nobody",
        "limit": "1",
        "before": str(found[0]["seq"]),
        "unread_only": "true",
    }
    wire.queries("GET /v1/inbox", unmarked, **filters, mark_seen="true", wait_seconds="99")
    wire.ask("GET /v1/inbox", limit="0")
    wire.ask("GET /v1/inbox", since=FAR_OFF)
    wire.ask("GET /v1/inbox", headers={"x-parley-session": "7" * 64})
    wire.headers("GET /v1/inbox", x_parley_session="7" * 64)
    wire.queries("GET /v1/inbox/search", {"q": "note"}, **filters, q="two")
    wire.ask("GET /v1/inbox/search", q="words")
    wire.ask("GET /v1/inbox/search")
    wire.headers("GET /v1/inbox/search", base={"q": "note"}, x_parley_session="7" * 64)


def _discarding(wire: Wire) -> None:
    found = wire.ask("GET /v1/inbox")["items"]
    wire.ask("DELETE /v1/inbox/{id}", id=found[0]["id"])
    wire.ask("DELETE /v1/inbox/{id}", id=found[0]["id"])
    wire.queries("DELETE /v1/inbox", mesh="side", before=LONG_AGO, all="nonsense")
    wire.ask("DELETE /v1/inbox")
    wire.ask("DELETE /v1/inbox", all="true")


def _outbox(wire: Wire, ann: Home) -> None:
    wire.ask(
        "POST /v1/send", body={"to": "#nowhere", "mesh": "team", "message": "to nobody", "client_message_id": "dead"}
    )
    ann.until(lambda client: client.outbox_row("dead").status == "dead")
    done = wire.ask("GET /v1/outbox/{id}", id="send")
    wire.ask("GET /v1/outbox/{id}", id="dead")
    wire.ask("GET /v1/outbox/{id}", id="nope")
    requeued = {"id": "nope", "new_client_message_id": "m-9", "message": "anew", "force": False, "aborted_by": "ann"}
    wire.members("POST /v1/outbox/requeue", requeued)
    wire.ask("POST /v1/outbox/requeue", body={"id": "dead", "message": "anew"})
    wire.ask("POST /v1/outbox/requeue", body={"id": done["id"]})
    wire.ask("POST /v1/outbox/requeue", body={"id": "nope"})
    wire.ask("GET /v1/outbox/{id}", id="dead")
    wire.members("POST /v1/outbox/drop", {"id": "nope", "force": False, "aborted_by": "ann"})
    wire.ask(
        "POST /v1/send", body={"to": "#nowhere", "mesh": "team", "message": "to nobody", "client_message_id": "drop"}
    )
    ann.until(lambda client: client.outbox_row("drop").status == "dead")
    wire.ask("POST /v1/outbox/drop", body={"id": "drop"})
    wire.ask("POST /v1/outbox/drop", body={"id": done["id"]})
    wire.members("POST /v1/outbox/prune", {"older_than_days": 36000.5})
    wire.ask("POST /v1/outbox/prune", body={"older_than_days": 36000})
    wire.ask("GET /v1/outbox")
    wire.ask("GET /v1/outbox", reached="true", status="done")
    wire.ask("GET /v1/outbox", status="nonsense")
    wire.queries("GET /v1/outbox", status="nonsense", mesh="side", limit="1", reached="nonsense")


def _refusals(wire: Wire, ann: Home) -> None:
    """What stands before every route, over the socket and over loopback."""
    any_route = "* *"

    def refused(answer: httpx.Response) -> None:
        body = wire.refused(any_route, answer)
        named = {"allow", "retry-after", "www-authenticate"} & set(answer.headers)
        told.update(f"{body['code']} {name}" for name in named)

    told: set[str] = set()
    client = wire.client
    refused(client.get("/v1/nothing"))
    refused(client.get("/v1/send"))
    refused(client.get("/v1/health", headers={"host": "example.org"}))
    refused(client.get("/v1/health", headers={"origin": "http://localhost"}))
    refused(client.get("/v1/health", params={"token": "x"}))
    refused(client.post("/v1/send", content=b"{}", headers={"content-type": "text/plain"}))
    refused(client.post("/v1/send", content=b"{", headers={"content-type": "application/json"}))
    refused(client.post("/v1/send", content=b" " * 70_000, headers={"content-type": "application/json"}))
    port = int((ann.folder / "http.port").read_text())
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS, trust_env=False) as loopback:
        refused(loopback.get("/v1/health"))
        refused(loopback.get("/v1/health", headers={"authorization": "Bearer wrong"}))
        token = Path(ann.folder / "local-token").read_text().strip()
        assert loopback.get("/v1/health", headers={"authorization": f"Bearer {token}"}).is_success
    wire.recorder.notes(any_route, headers=sorted(told))


def _events(wire: Wire, bob: Home) -> dict[str, Any]:
    """The events of the daemon's log by name, after bob went and came back."""
    shapes: dict[str, Shape] = {}
    with wire.client.stream("GET", "/v1/events") as stream:
        newest = next(int(line[len("id: ") :]) for line in stream.iter_lines() if line.startswith("id: "))
    bob.types("daemon", "down")
    bob.until_ended()
    left = _follow(wire, 0, shapes, "peer_leave", newest)
    assert bob.types("daemon", "up").code == 0
    _follow(wire, left, shapes, "peer_join", left)
    wire.recorder.answer("GET /v1/events", 200, "")
    asked: tuple[dict[str, Any], ...] = (
        {"params": {"after": "999999"}},
        {"params": {"mesh": "nope"}},
        {"headers": {"last-event-id": "999999"}},
        {"headers": {"x-parley-session": "7" * 64}},
    )
    for given in asked:
        with wire.client.stream("GET", "/v1/events", **given) as stream:
            assert stream.is_client_error, given
            wire.refused("GET /v1/events", stream)
    return {name: shape.seen() for name, shape in shapes.items()}


def _follow(wire: Wire, cursor: int, shapes: dict[str, Shape], last: str, beyond: int) -> int:
    """Takes the shapes of events in, up to the first of this name beyond a number; returns the number of that one."""
    with wire.client.stream("GET", "/v1/events", params={"after": str(cursor)}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines: dict[str, str] = {}
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                lines[name] = value
                continue
            if "event" in lines:
                data = json.loads(lines["data"])
                told = f"system {data['name']}" if lines["event"] == "system" else lines["event"]
                shapes.setdefault(told, Shape(MAPS)).add(data)
                if lines["event"] == last and int(lines["id"]) > beyond:
                    return int(lines["id"])
            lines = {}
    raise AssertionError(f"the stream ended before {last}")
