"""Agentlip's TypeScript client and command line on our hub: each call they make, and each thing they read from it.

The workspace is one that Agentlip made; the hub is a process that serves it in place. See ``agentlip`` for their side.
"""

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from bench.load.ports import lasting_port
from tests.client.hubs import HubProcess, fresh_name
from tests.compat.agentlip import (
    ATTACHMENT,
    CHANNEL,
    HEALTH,
    MESSAGE,
    RUNTIMES,
    TOPIC,
    Caller,
    Server,
    has_shape,
    open_feed,
    read_server,
)
from tests.workspace.databases import AGENTLIP_DB_ID, make_agentlip

LATER = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace of Agentlip's that our hub serves."""
    folder = tmp_path_factory.mktemp("adopted")
    make_agentlip(folder, fts=True)
    hub = HubProcess(folder).start()
    try:
        yield folder
    finally:
        hub.stop()


@pytest.fixture
def server(root: Path) -> Server:
    found = read_server(root)
    assert found is not None
    return found


@pytest.fixture(params=RUNTIMES)
def caller(server: Server, request: pytest.FixtureRequest) -> Caller:
    """The client, under each runtime it runs on."""
    return Caller(server, request.param)


class Place:
    """A channel with two topics that no other test uses."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.channel = caller.create("/api/v1/channels", "channel", name=fresh_name("channel"))
        self.topic = self.new_topic("first")
        self.other = self.new_topic("second")

    def new_topic(self, title: str) -> dict[str, Any]:
        return self.caller.create("/api/v1/topics", "topic", channel_id=self.channel["id"], title=title)

    def send(self, content: str = "hello") -> dict[str, Any]:
        return self.caller.create(
            "/api/v1/messages", "message", topic_id=self.topic["id"], sender="ann", content_raw=content
        )

    def patch(self, message: dict[str, Any], op: str, **fields: Any) -> Any:
        return self.caller.call("PATCH", f"/api/v1/messages/{message['id']}", {"op": op, **fields})


@pytest.fixture
def place(caller: Caller) -> Place:
    return Place(caller)


def test_the_hub_is_found_and_is_valid(root: Path, caller: Caller) -> None:
    path = root / ".agentlip" / "server.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert re.fullmatch("[0-9a-f]{64}", caller.server.auth_token)
    status, health = caller.call("GET", "/health")
    assert status == 200
    assert has_shape(health, HEALTH)
    assert (health["protocol_version"], health["schema_version"]) == ("v1", 1)
    assert health["instance_id"] == caller.server.instance_id
    assert health["db_id"] == caller.server.db_id == AGENTLIP_DB_ID
    assert health["pid"] == caller.server.pid


def test_channels_and_topics_are_made_and_renamed(place: Place) -> None:
    assert has_shape(place.channel, CHANNEL)
    assert place.channel["id"].startswith("ch_")
    assert place.channel["description"] is None
    assert has_shape(place.topic, TOPIC)
    assert place.topic["id"].startswith("topic_")
    assert place.topic["channel_id"] == place.channel["id"]
    assert LATER.fullmatch(place.topic["created_at"])
    status, renamed = place.caller.call("PATCH", f"/api/v1/topics/{place.topic['id']}", {"title": "new"})
    assert status == 200
    assert has_shape(renamed["topic"], TOPIC)
    assert renamed["topic"]["title"] == "new"
    assert isinstance(renamed["event_id"], int)


@pytest.mark.parametrize("content", ["hello", "", "äöü ☕ 😀 \u2028", 'a "quoted" \\ line\n\tand another'])
def test_a_message_is_sent(place: Place, content: str) -> None:
    message = place.send(content)
    assert has_shape(message, MESSAGE)
    assert message["id"].startswith("msg_")
    assert (message["content_raw"], message["sender"], message["version"]) == (content, "ann", 1)
    assert message["topic_id"] == place.topic["id"]
    assert message["channel_id"] == place.channel["id"]
    assert message["edited_at"] is message["deleted_at"] is message["deleted_by"] is None


def test_a_message_is_edited_with_and_without_a_version(place: Place) -> None:
    message = place.send()
    status, edited = place.patch(message, "edit", content_raw="two", expected_version=1)
    assert status == 200
    assert has_shape(edited["message"], MESSAGE)
    assert (edited["message"]["content_raw"], edited["message"]["version"]) == ("two", 2)
    assert LATER.fullmatch(edited["message"]["edited_at"])
    assert isinstance(edited["event_id"], int)
    assert place.patch(message, "edit", content_raw="three").body["message"]["version"] == 3


def test_a_message_is_deleted_once(place: Place) -> None:
    message = place.send()
    status, deleted = place.patch(message, "delete", actor="boss")
    assert status == 200
    assert has_shape(deleted["message"], MESSAGE)
    assert (deleted["message"]["content_raw"], deleted["message"]["deleted_by"]) == ("[deleted]", "boss")
    assert deleted["message"]["deleted_at"] == deleted["message"]["edited_at"]
    assert isinstance(deleted["event_id"], int)
    status, again = place.patch(message, "delete", actor="boss")
    assert (status, again["event_id"]) == (200, None)


@pytest.mark.parametrize(("mode", "moved"), [("one", 1), ("later", 2), ("all", 3)])
def test_messages_are_moved(place: Place, mode: str, moved: int) -> None:
    messages = [place.send(str(number)) for number in range(3)]
    status, answer = place.patch(messages[1], "move_topic", to_topic_id=place.other["id"], mode=mode)
    assert (status, answer["affected_count"], len(answer["event_ids"])) == (200, moved, moved)
    status, again = place.patch(messages[1], "move_topic", to_topic_id=place.other["id"], mode=mode)
    assert (status, again["affected_count"], again["event_ids"]) == (200, 0, [])


def test_an_attachment_is_added_once(place: Place) -> None:
    message = place.send()
    path = f"/api/v1/topics/{place.topic['id']}/attachments"
    value = {"path": "/x", "line": 3}
    made = place.caller.create(path, "attachment", kind="file", value_json=value)
    assert has_shape(made, ATTACHMENT)
    assert made["id"].startswith("att_")
    assert (made["value_json"], made["key"]) == (value, None)
    status, again = place.caller.call("POST", path, {"kind": "file", "value_json": value})
    assert (status, again["event_id"], again["attachment"]["id"]) == (200, None, made["id"])
    full = {"key": "k", "dedupe_key": "d", "source_message_id": message["id"]}
    other = place.caller.create(path, "attachment", kind="file", value_json=value, **full)
    assert {name: other[name] for name in full} == full


def test_what_goes_wrong_has_the_code_and_the_status_that_the_client_knows(place: Place) -> None:
    message = place.send()
    conflict = place.patch(message, "edit", content_raw="x", expected_version=7)
    assert conflict.failure == (409, "VERSION_CONFLICT")
    assert conflict.body["details"]["current"] == 1
    stranger = Place(place.caller)
    moved = place.patch(message, "move_topic", to_topic_id=stranger.topic["id"], mode="one")
    assert moved.failure == (400, "CROSS_CHANNEL_MOVE")
    nowhere = {"topic_id": "topic_none", "sender": "ann", "content_raw": "x"}
    assert place.caller.call("POST", "/api/v1/messages", nowhere).failure == (404, "NOT_FOUND")
    assert place.patch({"id": "msg_none"}, "edit", content_raw="x").failure == (404, "NOT_FOUND")
    assert place.patch(message, "edit", content_raw="").failure == (400, "INVALID_INPUT")
    taken = place.caller.call("POST", "/api/v1/channels", {"name": place.channel["name"]})
    assert taken.failure == (400, "INVALID_INPUT")
    assert taken.body["error"] == "Channel name already exists"
    double = {"channel_id": place.channel["id"], "title": "first"}
    assert place.caller.call("POST", "/api/v1/topics", double).failure == (400, "INVALID_INPUT")
    link = {"kind": "url", "value_json": {"url": "javascript:alert(1)"}}
    unsafe = place.caller.call("POST", f"/api/v1/topics/{place.topic['id']}/attachments", link)
    assert unsafe.failure == (400, "INVALID_INPUT")


def test_a_wrong_token_is_refused(server: Server) -> None:
    stranger = server._replace(auth_token="0" * 64)
    body = {"name": fresh_name("channel")}
    assert Caller(stranger).call("POST", "/api/v1/channels", body).failure == (401, "INVALID_AUTH")
    with pytest.raises(InvalidStatus) as refused, open_feed(stranger):
        pass
    assert refused.value.response.status_code == 401


def test_the_feed_replays_everything_and_goes_on(place: Place) -> None:
    with open_feed(place.caller.server) as feed:
        assert feed.hello_ok["type"] == "hello_ok"
        assert isinstance(feed.hello_ok["replay_until"], int)
        assert feed.hello_ok["instance_id"] == place.caller.server.instance_id
        replayed = feed.take_until(feed.hello_ok["replay_until"])
        assert [event["event_id"] for event in replayed] == list(range(1, feed.hello_ok["replay_until"] + 1))
        message = place.send("live, see https://example.org/live.")
        created, attached = feed.take(2)
    assert created["name"] == "message.created"
    assert created["scope"] == {
        "channel_id": place.channel["id"],
        "topic_id": place.topic["id"],
        "topic_id2": None,
    }
    assert created["entity"] == {"type": "message", "id": message["id"]}
    assert created["data"] == {"message": message}
    assert attached["name"] == "topic.attachment_added"
    assert attached["data"]["attachment"]["value_json"] == {"url": "https://example.org/live"}
    assert attached["data"]["attachment"]["source_message_id"] == message["id"]


def test_each_event_has_the_payload_that_the_client_types(place: Place) -> None:
    message = place.send()
    place.patch(message, "edit", content_raw="two")
    place.patch(message, "move_topic", to_topic_id=place.other["id"], mode="one")
    place.patch(message, "delete", actor="boss")
    last = place.caller.call("PATCH", f"/api/v1/topics/{place.topic['id']}", {"title": "new"}).body["event_id"]
    with open_feed(place.caller.server, channels=[place.channel["id"]]) as feed:
        data = {event["name"]: event["data"] for event in feed.take_until(last)}
    assert data["channel.created"] == {"channel": place.channel}
    assert data["topic.created"] == {"topic": place.other}
    edited = {"message_id": message["id"], "old_content": "hello", "new_content": "two", "version": 2}
    assert data["message.edited"] == edited
    ids = {"message_id": message["id"], "channel_id": place.channel["id"]}
    moved = {"old_topic_id": place.topic["id"], "new_topic_id": place.other["id"], "mode": "one", "version": 3}
    assert data["message.moved_topic"] == {**ids, **moved}
    assert data["message.deleted"] == {"message_id": message["id"], "deleted_by": "boss", "version": 4}
    assert data["topic.renamed"] == {"topic_id": place.topic["id"], "old_title": "first", "new_title": "new"}


def test_a_feed_of_one_topic_has_what_comes_and_goes_there(place: Place) -> None:
    message = place.send()
    place.patch(message, "move_topic", to_topic_id=place.other["id"], mode="one")
    place.patch(message, "move_topic", to_topic_id=place.topic["id"], mode="one")
    with open_feed(place.caller.server, topics=[place.other["id"]]) as feed:
        names = [event["name"] for event in feed.take(3)]
    assert names == ["topic.created", "message.moved_topic", "message.moved_topic"]


def test_a_client_goes_on_over_a_restart(tmp_path: Path) -> None:
    make_agentlip(tmp_path, fts=False)
    hub = HubProcess(tmp_path).start("--port", str(lasting_port()))
    try:
        before = read_server(tmp_path)
        assert before is not None
        with open_feed(before) as feed:
            seen = feed.take_until(feed.hello_ok["replay_until"])
            hub.terminate()
            assert feed.close_code() == (1001, "Server shutting down")
        hub.stop()
        hub.start("--port", str(before.port))
        # The client dials the same address with the same token, from the last event that it has seen.
        Place(Caller(before))
        with open_feed(before, after=seen[-1]["event_id"]) as feed:
            assert feed.hello_ok["instance_id"] != before.instance_id
            seen += feed.take(3)
        assert [event["event_id"] for event in seen] == list(range(1, len(seen) + 1))
    finally:
        hub.stop()
