"""Finding a hub: ``server.json`` is a hint, ``/health`` has the last word, and no token goes to a stranger."""

from pathlib import Path

import msgspec
import pytest

from parley.client.hub_location import (
    ANSWER_SECONDS_MAX,
    START_TRIES_MAX,
    AtUrl,
    InWorkspace,
    start_and_reach,
    start_hub,
)
from parley.client.steps import HubAddress, Reply
from parley.core.errors import ConnectionFailed, HubNotRunning, StartupFailed
from parley.wire.server_file import ServerFile
from parley.workspace.layout import Workspace
from tests.client.world import World, healthy, ok

HINT = ServerFile("instance", "db", 4000, "127.0.0.1", "token-one", 1, "")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    state = tmp_path / ".parley"
    state.mkdir()
    return Workspace(tmp_path, state)


def in_workspace(workspace: Workspace, hint: ServerFile | bytes = HINT, token: str | None = None) -> InWorkspace:
    data = hint if isinstance(hint, bytes) else msgspec.json.encode(hint)
    workspace.server_file.write_bytes(data)
    return InWorkspace(workspace, lambda _: "db", token)


def test_a_hub_that_answers_for_this_database_is_found_and_asked_without_the_token(workspace: Workspace) -> None:
    world = World(lambda _: healthy())
    address = world.run(in_workspace(workspace).locate())
    assert address == HubAddress("http://127.0.0.1:4000", "token-one", "db", "instance")
    assert [request.headers for request in world.requests] == [{}]


def test_a_given_token_replaces_the_one_in_the_file(workspace: Workspace) -> None:
    assert World(lambda _: healthy()).run(in_workspace(workspace, token="mine").locate()).token == "mine"


def test_an_ipv6_hub_is_found(workspace: Workspace) -> None:
    hint = msgspec.structs.replace(HINT, host="::1")
    assert World(lambda _: healthy()).run(in_workspace(workspace, hint).locate()).base_url == "http://[::1]:4000"


def test_without_server_json_no_hub_is_running(workspace: Workspace) -> None:
    world = World(lambda _: healthy())
    with pytest.raises(HubNotRunning, match="No hub is running"):
        world.run(InWorkspace(workspace, lambda _: "db").locate())
    assert world.requests == []


@pytest.mark.parametrize("hint", [b"", b"{", b"[]", b'{"port":1}'])
def test_a_damaged_server_json_is_no_hub(workspace: Workspace, hint: bytes) -> None:
    with pytest.raises(HubNotRunning, match="cannot be read"):
        World(lambda _: healthy()).run(in_workspace(workspace, hint).locate())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ConnectionFailed("refused"), "No hub answers"),
        (healthy(db_id="another"), "serves another workspace"),
        (healthy(protocol="v2"), "speaks protocol v2"),
        (ok({"hello": "world"}), "is not a hub"),
        (Reply(404, b"Not Found"), "is not a hub"),
    ],
)
def test_what_is_left_of_a_crash_is_no_hub(workspace: Workspace, answer: Reply | ConnectionFailed, reason: str) -> None:
    with pytest.raises(HubNotRunning, match=reason):
        World(lambda _: answer).run(in_workspace(workspace).locate())


def test_a_hub_at_a_url_is_asked_for_its_database_and_the_token_is_read_each_time() -> None:
    tokens = iter(["one", "two"])
    place = AtUrl("http://127.0.0.1:4000/", lambda: next(tokens))
    world = World(lambda _: healthy())
    assert world.run(place.locate()) == HubAddress("http://127.0.0.1:4000", "one", "db", "instance")
    assert world.run(place.locate()).token == "two"


def test_a_hub_is_started_detached_by_this_python(tmp_path: Path) -> None:
    world = World(lambda _: healthy())
    world.run(start_hub(tmp_path, idle_shutdown_ms=500, python="/usr/bin/python"))
    up = ("/usr/bin/python", "-P", "-m", "parley", "up", "--workspace", str(tmp_path), "--detach", "--json")
    assert world.spawned == [(*up, "--idle-shutdown-ms", "500")]


def test_a_start_that_another_process_won_is_as_good(tmp_path: Path) -> None:
    World(lambda _: healthy(), exit_code=10).run(start_hub(tmp_path, idle_shutdown_ms=None))


def test_a_start_that_failed_tells_why(tmp_path: Path) -> None:
    with pytest.raises(StartupFailed, match="unknown key") as raised:
        World(lambda _: healthy(), exit_code=22, stderr="unknown key in parley.toml\n").run(
            start_hub(tmp_path, idle_shutdown_ms=None)
        )
    assert raised.value.details["exit_code"] == 22


def test_a_hub_that_is_being_started_is_awaited(workspace: Workspace) -> None:
    answers = iter([ConnectionFailed("refused"), ConnectionFailed("refused"), healthy()])
    world = World(lambda _: next(answers), exit_code=10)
    place = in_workspace(workspace)
    assert world.run(start_and_reach(workspace.root, place.locate, idle_shutdown_ms=None)).db_id == "db"
    assert len(world.pauses) == 2
    assert len(world.spawned) == 1


def test_where_a_hub_is_stopping_the_start_is_tried_again(workspace: Workspace) -> None:
    world = World(lambda _: healthy() if len(world.spawned) == 3 else ConnectionFailed("refused"), exit_code=10)
    place = in_workspace(workspace)
    assert world.run(start_and_reach(workspace.root, place.locate, idle_shutdown_ms=None)).db_id == "db"
    assert sum(world.pauses) == pytest.approx(2 * ANSWER_SECONDS_MAX, abs=0.1)


def test_a_hub_that_never_answers_is_not_awaited_for_ever(workspace: Workspace) -> None:
    world = World(lambda _: ConnectionFailed("refused"))
    with pytest.raises(HubNotRunning, match="does not answer"):
        world.run(start_and_reach(workspace.root, in_workspace(workspace).locate, idle_shutdown_ms=None))
    assert len(world.spawned) == START_TRIES_MAX
