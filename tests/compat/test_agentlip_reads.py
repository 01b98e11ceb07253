"""Agentlip's command line reads the file itself, with its own statements: beside our hub, and when none runs."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.client.hubs import HubProcess
from tests.compat.agentlip import ATTACHMENT, CHANNEL, MESSAGE, TOPIC, Caller, FileReader, has_shape, read_server
from tests.workspace.databases import AGENTLIP_DB_ID, make_agentlip


class Written(NamedTuple):
    """The workspace and what was in it before and after our hub came."""

    root: Path
    channel_id: str
    topic_id: str
    old: list[dict[str, Any]]
    new: list[dict[str, Any]]


def write(root: Path) -> Written:
    """What Agentlip left in its busier topic, and three messages that were sent to our hub, the newest first."""
    server = read_server(root)
    assert server is not None
    caller = Caller(server)
    with closing(FileReader(root)) as reader:
        channel_id = reader.channel_named("général")[0]["id"]
        topic_id = reader.topics(channel_id)[0]["id"]
        old = reader.tail(topic_id)
    body = {"topic_id": topic_id, "sender": "ann"}
    new = [caller.create("/api/v1/messages", "message", content_raw=f"zebra {n}", **body) for n in range(3)]
    caller.create(f"/api/v1/topics/{topic_id}/attachments", "attachment", kind="note", value_json={"b": 1, "a": "x"})
    return Written(root, channel_id, topic_id, old, new[::-1])


@pytest.fixture(scope="module", params=["beside the hub", "without a hub"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    folder = tmp_path_factory.mktemp("adopted")
    make_agentlip(folder, fts=False)
    hub = HubProcess(folder).start()
    try:
        result = write(folder)
        if request.param == "without a hub":
            hub.stop()
            assert read_server(folder) is None
        yield result
    finally:
        hub.stop()


@pytest.fixture
def reader(written: Written) -> Iterator[FileReader]:
    with closing(FileReader(written.root)) as reading:
        yield reading


def columns(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Only what the command line selects."""
    return [{name: message[name] for name in MESSAGE} for message in messages]


def test_doctor_finds_the_identity_and_the_version_it_knows(reader: FileReader) -> None:
    assert reader.doctor() == {"db_id": AGENTLIP_DB_ID, "schema_version": "1"}


def test_channels_and_topics_are_listed(reader: FileReader, written: Written) -> None:
    (channel,) = reader.channels()
    assert has_shape(channel, CHANNEL)
    topics = reader.topics(written.channel_id)
    assert len(topics) == 2
    assert all(has_shape(topic, TOPIC) for topic in topics)
    assert topics[0]["id"] == written.topic_id, "the topic that was written to last comes first"


def test_tail_has_our_messages_before_those_of_agentlip(reader: FileReader, written: Written) -> None:
    assert written.old
    assert all(has_shape(message, MESSAGE) for message in written.old)
    assert reader.tail(written.topic_id) == columns(written.new) + written.old


def test_pages_go_over_the_seam(reader: FileReader, written: Written) -> None:
    first, last_old = written.new[-1], written.old[0]
    assert reader.page_before(written.topic_id, first["id"]) == written.old
    assert reader.page_after(written.topic_id, last_old["id"]) == columns(written.new[::-1])


def test_attachments_are_listed(reader: FileReader, written: Written) -> None:
    (note,) = reader.attachments(written.topic_id, "note")
    assert has_shape(note, ATTACHMENT)
    assert note["value_json"] == {"b": 1, "a": "x"}
    assert all(has_shape(link, ATTACHMENT) for link in reader.attachments(written.topic_id, "url"))


def test_search_finds_what_was_written_before_and_after(reader: FileReader, written: Written) -> None:
    found = reader.search("zebra")
    assert sorted(message["id"] for message in found) == sorted(message["id"] for message in written.new)
    notes = {message["id"] for message in reader.search("note")}
    assert notes >= {message["id"] for message in written.old if message["deleted_at"] is None}
