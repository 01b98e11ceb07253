"""Nothing that crosses a wire is removed, renamed, retyped or newly required: the JSON of the commands, the daemon's
local API, and what daemons and brokers say to each other. ``tests/pipeline`` has the commands of the pipeline.

To record an addition, run this file with ``PARLEY_UPDATE_SNAPSHOTS=1`` in the environment and commit what changed in
``snapshots/``. A command, a route, a method or a frame that no ``*_wire.py`` uses is missed until one does. Each
version of the broker's protocol has a snapshot of its own.
"""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any, get_args

import httpx
import pytest
import typer

from parley.broker.http import ENDPOINTS as BROKER_ROUTES
from parley.cli.root import root
from parley.daemon.http.table import ENDPOINTS
from parley.sandbox import missing
from parley.wire.broker import FromBroker, FromDaemon
from parley.wire.mesh_methods import METHODS, NOTICES
from tests.broker.process import SECONDS
from tests.compat import broker_wire, cli_wire, daemon_wire, roster_wire
from tests.compat.broker_wire import Tap
from tests.compat.contract import Shape, losses, members_of
from tests.compat.frozen import frozen, held
from tests.daemon.homes import Home, Room, World, opened_room

PROTOCOL = f"broker_protocol_{broker_wire.VERSION}"
NEXT_PROTOCOL = f"broker_protocol_{roster_wire.VERSION}"
REQUESTED = frozenset({"subscribe", "set_presence", "set_profile", "peers", "members", "roster_read", "keys"})


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with opened_room() as opened:
        yield opened


@pytest.fixture(scope="module")
def world(room: Room) -> World:
    return World(room, daemon_wire.SETTINGS)


@pytest.fixture(scope="module")
def tap(world: World) -> Iterator[Tap]:
    with Tap(world.process.url) as listening:
        yield listening


@pytest.fixture(scope="module")
def bob(world: World, tap: Tap) -> Home:
    """A member whose daemon reaches the broker through the tap, and of whom the others are told something."""
    made = _behind(world.home("bob"), world.invite(), "bob", tap)
    with made.client() as client:
        client.profile(status="idle", title="engineer")
    world.ann.asks("mesh", "create", "side", "--broker", world.process.http, "--name", "ann")
    return made


@pytest.mark.skipif(bool(missing()), reason="no sandbox here, in which a plugin could be tested")
def test_commands_print_what_programs_know(room: Room) -> None:
    held("cli_json", cli_wire.cli_contract(room))


def test_every_command_is_frozen() -> None:
    named = set(_commands(typer.main.get_command(root)))
    assert named - set(frozen("cli_json")["routes"]) - set(frozen("cli_json_pipeline")["routes"]) == cli_wire.OTHER


def _commands(group: Any, path: str = "") -> Iterator[str]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if hasattr(found, "list_commands"):
            yield from _commands(found, f"{path}{name} ")
        else:
            yield f"{path}{name}"


def test_the_daemons_api_is_as_its_callers_know_it(world: World, bob: Home) -> None:
    held("daemon_api", daemon_wire.daemon_contract(world, bob))


def test_a_brokers_protocol_is_as_daemons_know_it(world: World) -> None:
    held(PROTOCOL, broker_wire.broker_contract(world.process))


@pytest.fixture
def olden(room: Room) -> Iterator[tuple[Home, Home, Tap]]:
    """A member of a mesh without a roster, the mesh's owner, and what the member's daemon says."""
    asked = {"slug": "olden", "name": "olden"}
    founded = httpx.post(f"{room.process.http}/v1/meshes", json=asked, timeout=SECONDS, trust_env=False)
    elder = room.home("elder")
    elder.asks("mesh", "join", founded.json()["invite"], "--name", "ann")
    assert elder.types("daemon", "up").code == 0
    elder.has_key()
    with elder.client() as client:
        invite = client.invite().invite
    with Tap(room.process.url) as listening:
        yield _behind(room.home("olden"), invite, "olden", listening), elder, listening


def _behind(home: Home, invite: str, name: str, tap: Tap) -> Home:
    home.asks("mesh", "join", invite, "--name", name)
    memberships = home.folder / "memberships.json"
    broker_url = json.loads(memberships.read_text())["meshes"][0]["broker_url"]
    memberships.write_text(memberships.read_text().replace(broker_url, tap.url))
    assert home.types("daemon", "up").code == 0
    home.has_key()
    return home


def test_a_daemon_speaks_as_brokers_know_it(olden: tuple[Home, Home, Tap]) -> None:
    held(f"{PROTOCOL}_daemon", _spoken(*olden))


def test_a_daemon_speaks_the_second_version_as_brokers_know_it(world: World, bob: Home, tap: Tap) -> None:
    held(f"{NEXT_PROTOCOL}_daemon", _spoken(bob, world.ann, tap))


def _spoken(home: Home, ann: Home, tap: Tap) -> dict[str, Any]:
    """What the daemon of a home says to its broker from a start on."""
    home.types("daemon", "down")
    home.until_ended()
    tap.said.clear()
    assert home.types("daemon", "up").code == 0
    with home.client() as client, ann.client() as other:
        client.subscribe("tapped")
        client.profile(status="idle", title="engineer")
        client.peers()
        client.send("ann", "for ann")
        client.send("#tapped", "for the topic", mentions=[client.meshes().meshes[0].pubkey])
        other.send(home.folder.name, "for the home")
    ann.gets("for ann")
    home.gets("for the home")
    home.until(lambda _: any(each["type"] == "delivery_ack" for each in tap.said))
    return tap.seen(REQUESTED)


def test_every_frame_method_and_route_of_the_broker_is_frozen() -> None:
    versions = [frozen(PROTOCOL), frozen(NEXT_PROTOCOL)]
    methods, routes = ({name for each in versions for name in each[kind]["routes"]} for kind in ("methods", "http"))
    by_broker, by_daemon = (
        {name for each in versions for name in each[side]} for side in ("from_broker", "from_daemon")
    )
    assert set(METHODS) - methods == set()
    assert {f"notice {name}" for name in NOTICES} - by_broker == set()
    assert {f"{each.method} {each.path}" for each in BROKER_ROUTES} - routes == set()
    assert {each.__struct_config__.tag for each in get_args(FromDaemon)} - by_daemon == set()
    assert {each.__struct_config__.tag for each in get_args(FromBroker)} - {
        name.partition(" ")[0] for name in by_broker
    } == {"ping"}  # said after half a minute of silence


def test_every_route_of_the_daemon_is_frozen() -> None:
    assert {f"{each.method} {each.path}" for each in ENDPOINTS} - set(frozen("daemon_api")["routes"]) == set()


CHANGES: tuple[tuple[str, Callable[[Any], object], str], ...] = (
    ("daemon_api", lambda d: d["routes"].pop("POST /v1/send"), "/routes/POST /v1/send is gone"),
    (
        "daemon_api",
        lambda d: d["routes"]["GET /v1/inbox"]["query"].remove("since"),
        "/routes/GET /v1/inbox/query no longer has 'since'",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["GET /v1/inbox"]["answers"]["200"].pop("items[].seen_at"),
        "/routes/GET /v1/inbox/answers/200/items[].seen_at is gone",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["GET /v1/inbox"]["answers"]["200"].update({"items[].seq": "string"}),
        "/routes/GET /v1/inbox/answers/200/items[].seq is no longer integer",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["GET /v1/inbox"]["answers"]["200"].update({"items[].mesh": "null | string"}),
        "/routes/GET /v1/inbox/answers/200/items[].mesh can be null now",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["POST /v1/send"]["body"]["priority"].update(required=True),
        "/routes/POST /v1/send/body/priority is required now",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["POST /v1/send"]["body"].update(colour={"required": True, "takes": "string"}),
        "/routes/POST /v1/send/body/colour is new and required",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["POST /v1/send"]["body"]["mesh"].update(takes="string"),
        "/routes/POST /v1/send/body/mesh no longer takes null",
    ),
    ("daemon_api", lambda d: d["events"]["message"].pop("body"), "/events/message/body is gone"),
    ("daemon_api", lambda d: d["refusals"].pop("404 NOT_FOUND"), "/refusals/404 NOT_FOUND is gone"),
    ("cli_json", lambda d: d["routes"].pop("mesh peers"), "/routes/mesh peers is gone"),
    (
        "cli_json",
        lambda d: d["routes"]["msg send"]["answers"]["exit 0"].pop("message_id"),
        "/routes/msg send/answers/exit 0/message_id is gone",
    ),
    (
        "cli_json",
        lambda d: d["routes"]["send"]["refusals"].remove("exit 1 DESTINATION_UNKNOWN"),
        "/routes/send/refusals no longer has 'exit 1 DESTINATION_UNKNOWN'",
    ),
    (PROTOCOL, lambda d: d["from_broker"]["push"].pop("message.ref"), "/from_broker/push/message.ref is gone"),
    (
        PROTOCOL,
        lambda d: d["from_daemon"]["send"]["kind"]["values"].remove("queue"),
        "/from_daemon/send/kind/values no longer has 'queue'",
    ),
    (PROTOCOL, lambda d: d["methods"]["routes"].pop("peers"), "/methods/routes/peers is gone"),
    (
        PROTOCOL,
        lambda d: d["methods"]["routes"]["members"]["answers"]["result"].update({"members[].role": "integer"}),
        "/methods/routes/members/answers/result/members[].role is no longer string",
    ),
    (
        PROTOCOL,
        lambda d: d["close_codes"].update({"the member left": 1000}),
        "/close_codes/the member left was 4002 and is 1000",
    ),
)


@pytest.mark.parametrize(("name", "change", "found"), CHANGES, ids=[found for _, _, found in CHANGES])
def test_control_a_change_that_breaks_somebody_is_found(name: str, change: Callable[[Any], object], found: str) -> None:
    now = frozen(name)
    change(now)
    assert found in losses(frozen(name), now)


def test_additions_pass() -> None:
    more = frozen("daemon_api")
    more["routes"]["GET /v1/new"] = {"body": {"x": {"required": True, "takes": "string"}}}
    more["routes"]["POST /v1/send"]["body"]["colour"] = {"required": False, "takes": "string"}
    more["routes"]["GET /v1/inbox"]["answers"]["200"]["items[].colour"] = "string"
    assert losses(frozen("daemon_api"), more) == []


def test_a_shape_tells_what_is_sometimes_absent_or_null_and_what_is_a_map() -> None:
    shape = Shape(["by_name"]).add({"a": 1, "list": [{"b": None}, {"b": "x", "c": 1.5}], "by_name": {"k": True}})
    shape.add({"list": [], "by_name": {}})
    assert shape.seen() == {
        "a": "absent | integer",
        "by_name": "object",
        "by_name.*": "boolean",
        "list": "array",
        "list[]": "object",
        "list[].b": "null | string",
        "list[].c": "absent | number",
    }


def test_members_of_a_request_are_found_by_asking() -> None:
    def taken(body: Any) -> bool:
        numbers = body.get("numbers", [])
        if not isinstance(numbers, list) or not all(type(each) is int for each in numbers):
            return False
        return isinstance(body.get("name"), str) and body.get("kind", "a") in ("a", "b")

    example = {"name": "n", "kind": "a", "numbers": [1], "ignored": 1}
    assert members_of(copy.deepcopy(example), taken, kind=("a", "b", "c")) == {
        "name": {"takes": "string", "required": True},
        "kind": {"takes": "string", "required": False, "values": ["a", "b"]},
        "numbers": {"takes": "array", "required": False},
        "numbers[]": {"takes": "integer"},
        "ignored": {"takes": "array | boolean | integer | null | number | object | string", "required": False},
    }
