"""A hub, a daemon and a broker, each a process with something in it that the operations of its document can be about.

Some operations end or lock out what the others need. They are called like all others, and made good after each call.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from parley.app.services import CI_VARIABLES
from parley.broker import http as broker_http
from parley.client import daemon_calls
from parley.daemon.http import table as daemon_table
from parley.hub.http import table as hub_table
from parley.serve.endpoint import Endpoint
from parley.serve.openapi import About, openapi_document
from parley.wire.daemon_answers import OutboxItem
from parley.wire.daemon_home import DaemonHome
from parley.wire.invites import decode_invite, encode_invite
from parley.wire.mesh_methods import METHODS
from tests.broker.process import Person, Process
from tests.broker.process import broker as broker_process
from tests.client.hubs import DEADLINE_SECONDS, HubProcess
from tests.daemon.homes import Home, World, opened_room

Operation = tuple[str, str]
"""A method and a path of a document."""
Values = Mapping[str, Sequence[Any]]
"""What parameters, and members of a body, may be called and hold."""
NOBODY_LISTENS = "ws://127.0.0.1:9"
BROKER_SETTINGS = "[limits]\nhttp_per_address = 100000\nhttp_overall = 100000\n"
DAEMON_SETTINGS = "[ipc]\ntcp_in_container = true\nrate_per_second = 100000\n"


def _nothing() -> None:
    """Most calls need not be made good."""


@dataclass
class Running:
    """A server that runs, and what its caller knows of it."""

    url: str
    headers: Callable[[], dict[str, str]]
    """What lets the caller in, now."""
    known: Values
    """What is there and may be asked for, wherever a parameter or a member has this name."""
    known_at: Mapping[Operation, Values] = field(default_factory=dict)
    """The same for one operation, whose names mean something else elsewhere."""
    bodies: Mapping[Operation, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Whole bodies that chance would not find."""
    made_good: Mapping[Operation, Callable[[], None]] = field(default_factory=dict)
    """What is done after a call of an operation that may have ended what others need."""

    def make_good(self, operation: Operation) -> None:
        self.made_good.get(operation, _nothing)()


class Api(NamedTuple):
    """A server's table, and how one is started in a folder."""

    endpoints: Sequence[Endpoint[Any]]
    about: About
    run: Callable[[Path], AbstractContextManager[Running]]

    @property
    def document(self) -> dict[str, Any]:
        return openapi_document(self.endpoints, self.about)


def _bearer(token: Path) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.read_text().strip()}"}


@contextmanager
def hub(folder: Path) -> Iterator[Running]:
    """A hub with one of each thing. A rotated token locks nobody out who reads the file before each call."""
    process = HubProcess(folder).start()
    url, token = process.server.base_url, process.workspace.token

    def headers() -> dict[str, str]:
        return {**_bearer(token), "Origin": url}

    def post(path: str, **body: Any) -> dict[str, Any]:
        return client.post(f"/api/v1/{path}", json=body).raise_for_status().json()

    try:
        with httpx.Client(base_url=url, headers=headers(), timeout=DEADLINE_SECONDS, trust_env=False) as client:
            channel = post("channels", name="general")["channel"]["id"]
            topics = [post("topics", channel_id=channel, title=title)["topic"]["id"] for title in ("one", "two")]
            words = {"sender": "ann", "content_raw": "hello https://example.org"}
            message = post("messages", topic_id=topics[0], **words)["message"]["id"]
            post("agents", name="ann")
            task = post("tasks", title="t", created_by="ann", channel_id=channel)["task"]["id"]
            lease = post("leases", holder="ann", patterns=["src/**"])["lease"]["id"]
        known: Values = {
            "channel_id": [channel],
            "topic_id": topics[:1],
            "to_topic_id": topics[1:],
            "channel": [channel, "general"],
            "message_id": [message],
            "before_id": [message],
            "after_id": [message],
            "reply_to": [message],
            "source_message_id": [message],
            "task_id": [task],
            "lease_id": [lease],
            "holder": ["ann"],
            "generation": [1],
            "version": [1],
            "expected_version": [1],
            "plugin_name": ["linkifier"],
            "query": ["hello"],
            "path": ["js/main.js"],
        }
        agent: Values = {"name": ["ann"]}
        at = {("GET", "/api/v1/agents/{name}"): agent, ("PATCH", "/api/v1/agents/{name}"): agent}
        yield Running(url, headers, known, at)
    finally:
        process.stop()


@contextmanager
def broker(folder: Path) -> Iterator[Running]:
    """A broker that asks for its token, with a mesh, and an invite that joins again and again."""
    home = folder / "broker"
    home.mkdir(mode=0o700)
    (home / "broker.toml").write_text(BROKER_SETTINGS)
    with broker_process(home) as process:
        invite: str = process.report["owner_invite"]
        joining = msgspec.to_builtins(Person("dora").asks_to_join(invite))
        known: Values = {"slug": [_first_mesh(process)], "invite": [invite]}
        bodies = {("POST", "/v1/join"): [joining, joining, {**joining, "display_name": "somebody else"}]}
        yield Running(process.http, lambda: {"Authorization": f"Bearer {process.token}"}, known, bodies=bodies)


def _first_mesh(process: Process) -> str:
    headers = {"Authorization": f"Bearer {process.token}"}
    told = httpx.get(f"{process.http}/v1/meshes", headers=headers, timeout=DEADLINE_SECONDS, trust_env=False)
    return told.json()["meshes"][0]["slug"]


class Bob:
    """An admin of a mesh, whose daemon is called; it comes back when it left, and is written to when it has nothing."""

    def __init__(self, world: World) -> None:
        self._ann = world.ann
        with world.ann.client() as ann:
            self.invite = ann.invite(role="admin", uses=1_000).invite
        self.home: Home = world.home("bob", DAEMON_SETTINGS)
        self.home.asks("mesh", "join", self.invite, "--name", "bob")
        assert self.home.types("daemon", "up").code == 0
        self.home.has_key()
        self.message_ids: list[str] = []
        self.row_ids: list[str] = []
        self.session = secrets.token_hex(32)

    @cached_property
    def url(self) -> str:
        with self.home.client() as client:
            return f"http://127.0.0.1:{client.health().port}"

    def headers(self) -> dict[str, str]:
        return _bearer(DaemonHome(self.home.folder).token)

    def talk(self) -> None:
        """Fills the inbox and the outbox; what is sent to a topic without subscription is refused."""
        with self.home.client() as client:
            client.subscribe("deploys")
            for client_id, to in (("m-1", "ann"), ("m-2", "#nowhere")):
                self.row_ids.append(client.send(to, "hello", client_message_id=client_id).id)
        self.home.until(lambda client: self._settled(client.outbox().items))
        self.be_written_to()

    def _settled(self, rows: Sequence[OutboxItem]) -> bool:
        return {row.status for row in rows} == {"done", "dead"}

    def be_written_to(self) -> None:
        """Has a message in its inbox."""
        with self.home.client() as client:
            if client.inbox(mark_seen=False).items:
                return
            client.profile(status="idle")  # an earlier call may have made it busy, or blocked who writes to it
            client.call("unblock", {"member": "ann"})
            own_key = client.meshes().meshes[0].pubkey
            with self._ann.client() as ann:
                ann.send(own_key, "hello")
            found = client.wait_for_messages(DEADLINE_SECONDS, mark_seen=False)
            self.message_ids[:] = [each.id for each in found.items]

    def be_member(self) -> None:
        """Is in the mesh, and can read what is said there."""
        with self.home.client() as client:
            if not client.meshes().meshes:
                client.join(self.invite, "bob")
        self.home.has_key()
        self.home.until(lambda client: client.health().connected)

    def be_in_session(self) -> None:
        """Has a session of this process."""
        with self.home.client() as client:
            client.perform(daemon_calls.register_session(client.caller, self.session, "s1"))


@contextmanager
def daemon(folder: Path) -> Iterator[Running]:
    """The daemon of a member beside another one, who has written to it and was written to."""
    with pytest.MonkeyPatch.context() as environment, opened_room() as room:
        for name in CI_VARIABLES:
            environment.delenv(name, raising=False)
        world = World(room)
        bob = Bob(world)
        bob.talk()
        bob.be_in_session()
        invited = {"invite": [bob.invite], "name": ["bob"]}
        row: Values = {"id": bob.row_ids}
        known: Values = {
            "mesh": ["team"],
            "to": ["ann", "#deploys", "@ops", "*"],
            "topic": ["deploys"],
            "peer": ["ann"],
            "from": ["ann"],
            "q": ["hello"],
            "ids": [bob.message_ids],
            "client_message_id": ["m-1", "m-3"],
        }
        elsewhere = [leading_to(bob.invite, url) for url in (NOBODY_LISTENS, bob.url)]
        yield Running(
            bob.url,
            bob.headers,
            known,
            {
                ("DELETE", "/v1/inbox/{id}"): {"id": bob.message_ids},
                ("GET", "/v1/outbox/{id}"): row,
                ("POST", "/v1/outbox/requeue"): row,
                ("POST", "/v1/outbox/drop"): row,
                ("GET", "/v1/events"): {"after": ["0"]},
                ("DELETE", "/v1/sessions/{token}"): {"token": [bob.session]},
                ("POST", "/v1/mesh/join"): invited,
                ("POST", "/v1/mesh/call"): {"method": [*METHODS], "params": [{}, {"member": "ann"}]},
            },
            {
                ("POST", "/v1/mesh/call"): [{"method": name, "params": EVERY_PARAMETER} for name in METHODS],
                ("POST", "/v1/mesh/join"): [{"invite": invite, "name": "bob"} for invite in elsewhere],
            },
            {
                ("POST", "/v1/mesh/forget"): bob.be_member,
                ("POST", "/v1/mesh/rotate-keypair"): bob.be_member,
                ("POST", "/v1/mesh/call"): bob.be_member,
                ("DELETE", "/v1/inbox"): bob.be_written_to,
                ("DELETE", "/v1/inbox/{id}"): bob.be_written_to,
                ("DELETE", "/v1/sessions/{token}"): bob.be_in_session,
            },
        )


def leading_to(invite: str, broker_url: str) -> str:
    """An invite to a mesh that is said to be somewhere else."""
    told, secret = decode_invite(invite)
    return encode_invite(msgspec.structs.replace(told, mesh_id="mesh_elsewhere", broker_url=broker_url), secret)


EVERY_PARAMETER: Mapping[str, Any] = {
    "member": "ann",
    "topic": "deploys",
    "group": "ops",
    "status": "idle",
    "capabilities": ["dm"],
    "role": "member",
    "policy": "prefer_newest",
    "invite_id": "inv_1",
    "client_message_id": "m-1",
    "client_message_ids": ["m-1"],
    "key_epoch": 1,
    "giver_id": "mem_1",
    "sealed": "AAAA",
}
"""Parameters for any method of a broker, which takes those that are its own."""
APIS: Mapping[str, Api] = {
    "hub": Api(hub_table.ENDPOINTS, hub_table.ABOUT, hub),
    "daemon": Api(daemon_table.ENDPOINTS, daemon_table.ABOUT, daemon),
    "broker": Api(broker_http.ENDPOINTS, broker_http.ABOUT, broker),
}
