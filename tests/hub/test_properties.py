"""Random mutations against a simple model; after every run the folded log must be the tables, column by column.

The machine speaks HTTP to a real hub, on a clock that jumps, with retries under the same key and crashes in between:
a crash closes nothing, and a new hub opens what is on disk.
"""

import asyncio
import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from parley.core.clock import ManualClock
from parley.core.events import EVENTS
from parley.core.fold import differences, fold
from parley.sqlite import close_quietly, open_reader
from parley.workspace import queries
from tests.hub.hubs import OpenHub, open_hub

CONTENT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["see https://example.org/a", "https://example.org/b https://example.org/a", "x" * 3000]
)
EDITED = CONTENT.filter(bool)
KEYS = st.none() | st.integers(0, 3)
SENDER = st.sampled_from(["ann", "bob"])
TABLES = {"limits": {"move_batch_max": 2}}


class HubMachine(RuleBasedStateMachine):
    """The model knows of each message its topic, content, version and whether it is deleted."""

    topics = Bundle("topics")
    messages = Bundle("messages")

    @initialize(target=topics)
    def start(self) -> Any:
        self.folder = Path(tempfile.mkdtemp(prefix="parley-properties-"))
        self.clock = ManualClock()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.hub = self._open()
        self.model: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []
        self.done: dict[str, tuple[str, str, dict[str, Any], Any]] = {}
        self.channels = {self._create("a"), self._create("b")}
        self.channel_of: dict[str, str] = {}
        made = []
        for channel in sorted(self.channels):
            for title in ("one", "two"):
                body = self._mutate("POST", "/api/v1/topics", {"channel_id": channel, "title": title}, 201)
                self.channel_of[body["topic"]["id"]] = channel
                made.append(body["topic"]["id"])
        return multiple(*made)

    @rule(target=messages, topic=topics, content=CONTENT, sender=SENDER, key=KEYS, reply=st.booleans())
    def post(self, topic: str, content: str, sender: str, key: int | None, reply: bool) -> Any:
        body = {"topic_id": topic, "sender": sender, "content_raw": content}
        if reply and self.order:
            body["reply_to"] = self.order[-1]
        answer = self._mutate("POST", "/api/v1/messages", body, 201, key=key)
        if answer is None or answer.get("duplicate"):
            return multiple()
        message = answer["message"]
        assert not self.order or message["id"] > self.order[-1]
        self.order.append(message["id"])
        self.model[message["id"]] = {"topic_id": topic, "content_raw": content, "version": 1, "deleted": False}
        return message["id"]

    @rule(message=messages, content=EDITED, version=st.integers(0, 4), key=KEYS)
    def edit(self, message: str, content: str, version: int, key: int | None) -> None:
        known = self.model[message]
        body = {"op": "edit", "content_raw": content, "expected_version": version or None}
        expected = 400 if known["deleted"] else 409 if version not in (0, known["version"]) else 200
        if self._change(message, body, expected, key):
            known.update(content_raw=content, version=known["version"] + 1)

    @rule(message=messages, version=st.integers(0, 4), actor=SENDER, key=KEYS)
    def delete(self, message: str, version: int, actor: str, key: int | None) -> None:
        known = self.model[message]
        body = {"op": "delete", "actor": actor, "expected_version": version or None}
        expected = 409 if version not in (0, known["version"]) else 200
        if self._change(message, body, expected, key) and not known["deleted"]:
            known.update(content_raw="[deleted]", version=known["version"] + 1, deleted=True)

    @rule(message=messages, topic=topics, mode=st.sampled_from(["one", "later", "all"]), key=KEYS)
    def move(self, message: str, topic: str, mode: str, key: int | None) -> None:
        source = self.model[message]["topic_id"]
        body = {"op": "move_topic", "to_topic_id": topic, "mode": mode}
        expected = 200 if self.channel_of[source] == self.channel_of[topic] else 400
        if not self._change(message, body, expected, key) or source == topic:
            return
        place = self.order.index(message)
        chosen = {"one": [message], "later": self.order[place:], "all": self.order}[mode]
        for each in chosen:
            if self.model[each]["topic_id"] == source:
                self.model[each].update(topic_id=topic, version=self.model[each]["version"] + 1)

    @rule(topic=topics, number=st.integers(0, 3), key=KEYS)
    def attach(self, topic: str, number: int, key: int | None) -> None:
        body = {"kind": "note", "value_json": {"n": number, "a": [None, True]}}
        self._mutate("POST", f"/api/v1/topics/{topic}/attachments", body, None, key=key)

    @rule(topic=topics, title=st.sampled_from(["one", "two", "three"]), key=KEYS)
    def rename(self, topic: str, title: str, key: int | None) -> None:
        self._mutate("PATCH", f"/api/v1/topics/{topic}", {"title": title}, None, key=key)

    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """The same request with the same key: the first event, and nothing happens."""
        if not self.done:
            return
        key = data.draw(st.sampled_from(sorted(self.done)))
        method, path, body, first = self.done[key]
        answer = self._send(method, path, body, key)
        assert answer.status_code == 200
        again = answer.json()
        assert again["duplicate"] is True
        for name in ("event_id", "event_ids", "affected_count"):
            assert again.get(name) == first.get(name)

    @rule(milliseconds=st.sampled_from([0, 1, 1, 1000, 86_400_000, -1, -5000, -86_400_000]))
    def clock_jumps(self, milliseconds: int) -> None:
        self.clock.jump(milliseconds)

    @rule()
    def crash(self) -> None:
        """The files as they are now, log included, are all that the next hub gets."""
        copy = Path(tempfile.mkdtemp(prefix="parley-properties-"))
        shutil.copytree(self.hub.workspace.root, copy, dirs_exist_ok=True)
        self.runner.run(self.stack.aclose())
        shutil.rmtree(self.folder)
        self.folder, self.stack = copy, AsyncExitStack()
        self.hub = self._open()

    @invariant()
    def the_tables_are_what_the_model_says(self) -> None:
        if not self.model:
            return
        newest = self.order[-1]
        answer = self.runner.run(self.hub.api.get(f"/api/v1/messages/{newest}"))["message"]
        assert answer["version"] == self.model[newest]["version"]

    def teardown(self) -> None:
        if not hasattr(self, "hub"):
            return
        connection = open_reader(self.hub.workspace.db)
        try:
            events = list(queries.logged_events(connection))
            stored = queries.stored_state(connection)
            self._check_log(connection, events)
            assert differences(fold(events), stored) == []
            for message_id, known in self.model.items():
                row = stored.messages[message_id]
                assert {name: row[name] for name in ("topic_id", "content_raw", "version")} == {
                    name: known[name] for name in ("topic_id", "content_raw", "version")
                }
                assert (row["deleted_at"] is not None) == known["deleted"]
            found = [each for (each,) in connection.execute("SELECT id FROM messages ORDER BY seq")]
            assert found == self.order == sorted(self.order)
        finally:
            close_quietly(connection)
            self.runner.run(self.stack.aclose())
            self.runner.close()
            shutil.rmtree(self.folder)

    def _check_log(self, connection: Any, events: list[Any]) -> None:
        """Ids without gaps, versions that only grow, scopes of the catalogue, none of them of another channel."""
        assert [event.event_id for event in events] == list(range(1, len(events) + 1))
        versions: dict[str, int] = {}
        for event in events:
            message_id = event.data.get("message_id")
            if message_id is not None:
                assert event.data["version"] == versions.get(message_id, 1) + 1
                versions[message_id] = event.data["version"]
        scopes = connection.execute("SELECT name, scope_channel_id, scope_topic_id, scope_topic_id2 FROM events")
        for name, channel, topic, topic2 in scopes:
            filled = {"channel_id": channel, "topic_id": topic, "topic_id2": topic2}
            assert {scope for scope, value in filled.items() if value is not None} == EVENTS[name].scopes
            assert channel in self.channels
            for each in (topic, topic2):
                assert each is None or self.channel_of[each] == channel

    def _create(self, name: str) -> str:
        return self._mutate("POST", "/api/v1/channels", {"name": name}, 201)["channel"]["id"]

    def _change(self, message: str, body: dict[str, Any], expected: int, key: int | None) -> bool:
        """Whether the change happened now: neither refused nor done before."""
        answer = self._mutate("PATCH", f"/api/v1/messages/{message}", body, expected, key=key)
        return answer is not None and not answer.get("duplicate")

    def _mutate(
        self, method: str, path: str, body: dict[str, Any], status: int | None, *, key: int | None = None
    ) -> Any:
        """The answer, or None if it was refused as expected. A key that is in use belongs to its first request."""
        name = None if key is None else f"key-{key}"
        answer = self._send(method, path, body, name)
        if name is not None and name in self.done:
            same = self.done[name][:3] == (method, path, body)
            assert answer.status_code == (200 if same else 409), answer.text
            assert same or answer.json()["code"] == "IDEMPOTENCY_KEY_REUSED"
            return answer.json() if same else None
        assert answer.status_code < 500, answer.text
        assert status is None or answer.status_code == status, answer.text
        if answer.status_code >= 300:
            return None
        if name is not None:
            self.done[name] = (method, path, body, answer.json())
        return answer.json()

    def _send(self, method: str, path: str, body: dict[str, Any], key: str | None) -> Any:
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.runner.run(self.hub.api.client.request(method, path, json=body, headers=headers))

    def _open(self) -> OpenHub:
        return self.runner.run(self.stack.enter_async_context(open_hub(self.folder, TABLES, clock=self.clock)))


HubMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestHubMachine = HubMachine.TestCase


async def test_control_a_row_that_changed_without_an_event_is_found(hub: OpenHub) -> None:
    message = await hub.api.post(await hub.api.topic(await hub.api.channel()))
    assert hub.fold_problems() == []
    await hub.hub.store.write(lambda tx: tx.db.execute("UPDATE messages SET content_raw = 'tampered'") and None)
    assert hub.fold_problems() == [("messages", message["id"], "content_raw", "hello", "tampered")]
