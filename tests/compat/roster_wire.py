"""What version 2 of a broker's protocol adds: a mesh with a roster, found by its members without a daemon.

Frames are written out as they cross the wire. What version 1 has is held by its own snapshot.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from parley.core import sealing
from parley.core.canonical import canonical_json
from parley.core.clock import SystemClock
from parley.core.roster import Invite, entries
from parley.core.roster.entries import entry_hash
from tests.broker.process import Process
from tests.compat.broker_wire import MAPS, REQUIRED, Broker, Line, asked
from tests.compat.contract import members_of
from tests.compat.recorder import Recorder
from tests.conformance.broker.rostered import texts
from tests.core.roster.town import Town

VERSION: Final = 2


class Mesh:
    """A mesh with a roster, as its people know it."""

    def __init__(self, broker: Broker, slug: str) -> None:
        self.town = Town(at=SystemClock().now_ms())
        self.mesh_id = ""
        self._slug = slug
        key = broker.request("GET /v1/health")["key"]
        self.town.do("ada", "broker", entries.NameBroker(key))

    @property
    def founding(self) -> dict[str, Any]:
        return {"slug": self._slug, "entries": texts(self.town.log)}

    def hello(self, line: Line, name: str, invite: Invite | None = None) -> dict[str, Any]:
        """Who connects, signed over the nonce, and by the invite's own key for a joiner."""
        town, seed = self.town, self.town.seeds[name]
        member_id = None if invite is not None else town.ids[name]
        head = {"n": town.state.n, "hash": town.state.head, "sig": "0" * 128}
        frame: dict[str, Any] = {
            "type": "roster_hello",
            "mesh_id": self.mesh_id,
            "fingerprint": town.state.fingerprint,
            "pubkey": sealing.public_key(seed).hex(),
            "instance_id": "i-1",
            "member_id": member_id,
            "head": head,
            "host_fingerprint": "host",
            "daemon_version": "1.0",
        }
        said: list[Any] = [line.broker_id, line.nonce, frame["fingerprint"], member_id, frame["pubkey"], "i-1", "host"]
        said += [[head["n"], head["hash"]], None if invite is None else invite.id]
        signed = b"parley broker hello 2\n" + canonical_json(said)
        frame["signature"] = sealing.sign(seed, signed).hex()
        if invite is not None:
            names = ("id", "issuer", "role", "uses", "expires", "n", "head", "state", "sig")
            frame["invite"] = {each: getattr(invite, each) for each in names}
            frame["invite_signature"] = sealing.sign(town.secrets[invite.id], signed).hex()
        return frame

    def grow(self, *data: bytes) -> None:
        for each in data:
            assert self.town.offer(each) is None


def roster_contract(process: Process) -> dict[str, Any]:
    """Everything that version 2 adds."""
    with closing(Broker(process)) as broker:
        mesh = Mesh(broker, "two")
        _founded(broker, mesh)
        said, closes = _connections(broker, mesh)
        methods = _methods(broker, mesh)
        heard = broker.heard.seen()
        return {
            "http": _only(broker.recorder.contract(), "POST /v1/rosters"),
            "from_daemon": said,
            "from_broker": {name: heard[name] for name in ("challenge", "roster_welcome", "notice roster_head")},
            "methods": methods.contract(),
            "close_codes": closes,
        }


def _only(contract: dict[str, Any], route: str) -> dict[str, Any]:
    found = contract["routes"][route]
    return {
        "routes": {route: found},
        "refusals": {name: contract["refusals"][name] for name in found["refusals"]},
    }


def _founded(broker: Broker, mesh: Mesh) -> None:
    route = "POST /v1/rosters"
    broker.request(route, mesh.founding, token=False)
    broker.request(route, {**mesh.founding, "entries": mesh.founding["entries"][:1]})
    mesh.mesh_id = broker.request(route, mesh.founding)["mesh_id"]
    broker.request(route, mesh.founding)
    old = Mesh(broker, "old")
    old.town = Town(at=1)
    old.town.do("ada", "broker", entries.NameBroker(mesh.town.state.broker))
    broker.request(route, old.founding)
    broker.request(route, {**mesh.founding, "slug": "Not A Slug"})
    broker.members(route, mesh.founding)


def _connections(broker: Broker, mesh: Mesh) -> tuple[dict[str, Any], dict[str, int]]:
    closes: dict[str, int] = {}
    invite = mesh.town.invite("ada")
    joining = mesh.town.joining("bob", invite)

    def taken(frame: dict[str, Any]) -> bool:
        with broker.line() as line:
            line.say(frame)
            return line.hear("roster_welcome", "error").get("problem", {}).get("code") != "INVALID_INPUT"

    with broker.line() as line:
        hello = {**mesh.hello(line, "bob", invite), "member_id": "mem_1"}
    said = {"roster_hello": members_of(hello, taken, **{"invite.role": ("member", "admin", "owner")})}
    with broker.line() as line:
        line.say({**mesh.hello(line, "ada"), "signature": "0" * 128})
        closes["a signature that is not the member's"] = line.closed_with()
    with broker.line() as line:
        line.say({**mesh.hello(line, "bob", invite), "invite_signature": "0" * 128})
        closes["a signature that is not the invite's"] = line.closed_with()
    with _ready(broker, mesh) as ada, _joining(broker, mesh, invite) as bob:
        bob.ask("roster_read")
        assert bob.ask("roster_append", {"after": 1, "entries": texts([joining])})["result"]["appended"]
        mesh.grow(joining)
        ada.hear_notice("roster_head", lambda data: data["n"] == 2)
    mesh.town.ids["bob"] = mesh.town.state.names["bob"]
    closes |= _old_daemon(broker, mesh)
    return said, closes


def _old_daemon(broker: Broker, mesh: Mesh) -> dict[str, int]:
    """A hello of version 1 in a mesh with a roster."""
    with broker.line() as line:
        new = mesh.hello(line, "ada")
        names = ("mesh_id", "member_id", "pubkey", "instance_id", "host_fingerprint")
        old = {"type": "hello", "protocol": 1, **{name: new[name] for name in names}}
        said = ("parley broker hello 1", line.broker_id, line.nonce, *(old[name] for name in names))
        line.say({**old, "signature": sealing.sign(mesh.town.seeds["ada"], "\n".join(said).encode()).hex()})
        return {"a daemon that knows no rosters": line.closed_with()}


@contextmanager
def _ready(broker: Broker, mesh: Mesh, name: str = "ada") -> Iterator[Line]:
    with broker.line() as line:
        line.say(mesh.hello(line, name))
        line.hear("roster_welcome")
        line.say({"type": "negotiate", "require": REQUIRED})
        line.hear("features")
        yield line


@contextmanager
def _joining(broker: Broker, mesh: Mesh, invite: Invite) -> Iterator[Line]:
    with broker.line() as line:
        line.say(mesh.hello(line, "bob", invite))
        line.hear("roster_welcome")
        yield line


def _methods(broker: Broker, mesh: Mesh) -> Recorder:
    """What the methods take and return; and that those of version 1 which change members are refused."""
    seen, town = Recorder(MAPS), mesh.town

    def is_taken(answer: dict[str, Any]) -> bool:
        return answer["problem"] is None or answer["problem"]["code"] != "INVALID_INPUT"

    with _ready(broker, mesh) as ada, _ready(broker, mesh, "bob") as bob:
        rename = town.entry("ada", "rename", entries.Rename("ann"))
        params = {"after": town.state.n, "entries": texts([rename])}
        seen.members("roster_append", params, lambda each: is_taken(ada.ask("roster_append", each)))
        mesh.grow(rename)
        asked(seen, ada, "roster_append", params)
        stale = town.entry("bob", "rename", entries.Rename("rob"))
        late = {"after": 1, "entries": texts([stale])}
        asked(seen, bob, "roster_append", late)
        another = {"after": town.state.n, "entries": texts([town.entry("ada", "rename", entries.Rename("eve"))])}
        asked(seen, ada, "roster_append", another)
        asked(seen, ada, "roster_append", {"after": 99, "entries": ["{}"]})
        old = town.entry("bob", "rename", entries.Rename("rob"), at=1)
        asked(seen, bob, "roster_append", {"after": town.state.n, "entries": texts([old])})
        later = town.entry("bob", "rename", entries.Rename("rob"))
        asked(seen, bob, "roster_append", {"after": town.state.n, "entries": texts([later])})
        mesh.grow(later)
        again = town.entry("bob", "rename", entries.Rename("bob"))
        asked(seen, bob, "roster_append", {"after": town.state.n, "entries": texts([again])})
        reading = {"start": 0, "limit": 2}
        seen.members("roster_read", reading, lambda each: is_taken(ada.ask("roster_read", each)))
        asked(seen, ada, "roster_read", reading)
        confirming = {"after": 1, "entries": texts(town.log[2:3]), "confirmed": entry_hash(town.log[-1])}
        seen.members("roster_confirm", confirming, lambda each: is_taken(ada.ask("roster_confirm", each)))
        asked(seen, ada, "roster_confirm", confirming)
        asked(seen, bob, "roster_confirm", confirming)
        asked(seen, ada, "leave")
    return seen
