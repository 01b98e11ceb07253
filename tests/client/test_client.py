"""Both clients against a real hub: every call, every read from the file and over HTTP, failures as their classes."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.client import (
    AsyncClient,
    Client,
    FoundAttachment,
    FoundEnrichment,
    Span,
    agents,
    calls,
    connect,
    connect_async,
    leases,
    reads,
    tasks,
)
from parley.client.call import Call
from parley.core import errors
from tests.client.hubs import HubProcess, LossyProxy, fresh_name


def described() -> dict[str, Callable[..., Call[Any]]]:
    """Every public function that describes a call."""
    return {
        name: function
        for module in (calls, reads, agents, tasks, leases)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


@pytest.mark.parametrize("name", sorted(described()))
def test_both_clients_have_every_call_with_the_same_signature(name: str) -> None:
    expected = list(inspect.signature(described()[name]).parameters.values())[1:]
    for kind in (Client, AsyncClient):
        method = getattr(kind, name)
        assert list(inspect.signature(method).parameters.values())[1:] == expected
        assert method.__doc__ == described()[name].__doc__
    assert not inspect.iscoroutinefunction(getattr(Client, name))
    assert inspect.iscoroutinefunction(getattr(AsyncClient, name))


def test_a_conversation_through_the_blocking_client(shared_hub: HubProcess) -> None:
    with connect(shared_hub.root, sender="alice") as client:
        assert client.health().db_id == shared_hub.server.db_id
        assert client.ping({"a": [1]}).echo == {"a": [1]}
        assert client.status().status == "ok"
        channel = client.create_channel(fresh_name("general"), "all of it").channel
        topic = client.create_topic(channel.id, "Plans").topic
        other = client.create_topic(channel.id, "Later").topic
        assert client.rename_topic(topic.id, "Plan").topic.title == "Plan"
        first = client.send_message(topic.id, "one").message
        assert first.sender == "alice"
        answer = client.send_message(topic.id, "two", "bob", reply_to=first.id).message
        assert (answer.sender, answer.reply_to) == ("bob", first.id)
        assert client.edit_message(first.id, "uno", expected_version=1).message.version == 2
        with pytest.raises(errors.VersionConflict) as conflict:
            client.edit_message(first.id, "eins", expected_version=1)
        assert conflict.value.details["current"] == 2
        deleted = client.delete_message(answer.id)
        assert deleted.message.deleted_by == "alice"
        assert client.delete_message(answer.id).event_id is None
        assert client.retopic_message(first.id, other.id).affected_count == 1
        link = {"url": "https://example.org/"}
        added = client.add_attachment(topic.id, "url", link, key="home")
        assert added.attachment.value_json == link
        assert client.add_attachment(topic.id, "url", link, key="home").event_id is None


def test_findings_are_stored_for_the_version_that_was_read(shared_hub: HubProcess) -> None:
    with connect(shared_hub.root, sender="alice") as client:
        channel = client.create_channel(fresh_name("general")).channel
        topic = client.create_topic(channel.id, "Plans").topic
        message = client.send_message(topic.id, "see T-42").message
        ticket = FoundEnrichment("ticket", Span(4, 8), {"number": 42})
        stored = client.store_findings(message.id, "tickets", 1, enrichments=[ticket])
        assert (stored.message_id, stored.plugin_name, stored.version) == (message.id, "tickets", 1)
        assert [each.span for each in client.list_enrichments([message.id]).enrichments] == [Span(4, 8)]
        assert client.store_findings(message.id, "tickets", 1, enrichments=[ticket]).event_id is None
        client.store_findings(message.id, "tickets", 1, attachments=[FoundAttachment("ticket", {"number": 42})])
        (attachment,) = client.list_attachments(topic.id, kind="ticket").attachments
        assert (attachment.value_json, attachment.source_message_id) == ({"number": 42}, message.id)
        assert len(client.list_enrichments([message.id]).enrichments) == 1
        assert client.store_findings(message.id, "tickets", 1, enrichments=[]).event_id is not None
        assert client.list_enrichments([message.id]).enrichments == []
        client.edit_message(message.id, "never mind")
        with pytest.raises(errors.VersionConflict):
            client.store_findings(message.id, "tickets", 1, enrichments=[ticket])


async def test_findings_are_stored_through_the_asynchronous_client(shared_hub: HubProcess) -> None:
    async with await connect_async(shared_hub.root, sender="alice") as client:
        channel = (await client.create_channel(fresh_name("general"))).channel
        topic = (await client.create_topic(channel.id, "Plans")).topic
        message = (await client.send_message(topic.id, "see T-42")).message
        key = fresh_name("key")
        stored = await client.store_findings(message.id, "tickets", 1, enrichments=[], idempotency_key=key)
        assert stored.event_id is None


async def test_a_conversation_through_the_asynchronous_client(shared_hub: HubProcess) -> None:
    async with await connect_async(shared_hub.root, sender="alice") as client:
        channel = (await client.create_channel(fresh_name("general"))).channel
        topic = (await client.create_topic(channel.id, "Plans")).topic
        sent = (await client.send_message(topic.id, "one")).message
        assert (await client.get_message(sent.id)).message == sent
        assert [message.id for message in (await client.tail_messages(topic.id)).messages] == [sent.id]
        with pytest.raises(errors.NotFound):
            await client.create_topic("ch_none", "Plans")


def test_reads_from_the_file_and_over_http_give_the_same(shared_hub: HubProcess) -> None:
    with Client(shared_hub.root, sender="alice") as local:
        channel = local.create_channel(fresh_name("general")).channel
        topics = [local.create_topic(channel.id, f"Topic {number}").topic for number in range(3)]
        sent = [local.send_message(topics[0].id, f"word{number} https://example.org/{number}") for number in range(5)]
        ids = [result.message.id for result in sent]
        reads: list[Callable[[Client], Any]] = [
            lambda client: client.list_channels(),
            lambda client: client.list_topics(channel.id),
            lambda client: client.list_topics(channel.id, limit=2, offset=1),
            lambda client: client.get_topic(topics[1].id),
            lambda client: client.get_message(ids[0]),
            lambda client: client.tail_messages(topics[0].id, limit=2),
            lambda client: client.page_messages(topic_id=topics[0].id, before_id=ids[3], limit=2),
            lambda client: client.page_messages(channel_id=channel.id, after_id=ids[1], limit=2),
            lambda client: client.list_attachments(topics[0].id),
            lambda client: client.list_attachments(topics[0].id, kind="none"),
            lambda client: client.search("word3"),
            lambda client: client.search("c++ word", channel=channel.name, topic_id=topics[0].id, limit=1),
            lambda client: client.read_events(),
            lambda client: client.read_events(3, limit=2),
            lambda client: client.read_events(10_000),
            lambda client: client.read_events(tail=2),
            lambda client: client.read_events(topics=[topics[0].id], limit=4),
            lambda client: client.read_events(channels=["ch_none"]),
        ]
        refused: list[Callable[[Client], Any]] = [
            lambda client: client.list_topics("ch_none"),
            lambda client: client.get_topic("topic_none"),
            lambda client: client.get_message("msg_none"),
            lambda client: client.page_messages(topic_id=topics[0].id, before_id="msg_none"),
            lambda client: client.page_messages(),
            lambda client: client.list_attachments("topic_none"),
            lambda client: client.search("x", channel="none"),
            lambda client: client.search("  "),
            lambda client: client.list_topics(channel.id, limit=0),
            lambda client: client.read_events(1, tail=1),
        ]
        with Client(url=shared_hub.server.base_url, token=shared_hub.server.auth_token) as remote:
            assert remote.workspace is None
            for read in reads:
                assert read(local) == read(remote)
            for read in refused:
                with pytest.raises(errors.Refused) as from_file:
                    read(local)
                with pytest.raises(errors.Refused) as over_http:
                    read(remote)
                assert (type(from_file.value), from_file.value.details) == (
                    type(over_http.value),
                    over_http.value.details,
                )


def test_a_cursor_walks_through_a_list_from_the_file_and_over_http(shared_hub: HubProcess) -> None:
    word = fresh_name("walk").replace("-", "")
    with Client(shared_hub.root, sender="alice") as local:
        channel = local.create_channel(fresh_name("general")).channel
        topic_ids = [local.create_topic(channel.id, f"Topic {number}").topic.id for number in range(5)]
        ids = [local.send_message(topic_ids[0], word).message.id for _ in range(5)]
        with Client(url=shared_hub.server.base_url, token=shared_hub.server.auth_token) as remote:
            for client in (local, remote):
                backwards = walk(
                    lambda cursor, c=client: c.page_messages(topic_id=topic_ids[0], limit=2, cursor=cursor)
                )
                assert [message.id for page in backwards for message in page.messages] == ids[::-1]
                forwards = walk(
                    lambda cursor, c=client: c.page_messages(
                        topic_id=topic_ids[0], after_id=ids[0], limit=2, cursor=cursor
                    )
                )
                assert [[message.id for message in page.messages] for page in forwards] == [ids[2:0:-1], ids[4:2:-1]]
                topics = walk(lambda cursor, c=client: c.list_topics(channel.id, limit=2, cursor=cursor))
                assert {topic.id for page in topics for topic in page.topics} == set(topic_ids)
                hits = walk(lambda cursor, c=client: c.search(word, limit=2, cursor=cursor))
                assert sorted(message.id for page in hits for message in page.messages) == ids
                for nonsense in ("", "x", "o.-1", "o.9999999999999999", "c.msg_1", "b."):
                    with pytest.raises(errors.InvalidInput):
                        client.page_messages(topic_id=topic_ids[0], cursor=nonsense)


def walk(read: Callable[[str | None], Any]) -> list[Any]:
    """Every page of a list, from its first to the one without a cursor."""
    pages = [read(None)]
    while pages[-1].cursor is not None:
        pages.append(read(pages[-1].cursor))
    return pages


def test_reads_need_no_hub_and_writes_say_that_there_is_none(hub: HubProcess) -> None:
    with connect(hub.root, sender="alice") as client:
        channel = client.create_channel("general").channel
    for end in (hub.stop, hub.kill):
        end()
        with Client(hub.root, sender="alice") as client:
            assert client.list_channels().channels == [channel]
            with pytest.raises(errors.HubNotRunning):
                client.create_channel("more")
        hub.start()


def test_connect_without_a_hub_or_a_workspace_starts_nothing(stopped_hub: HubProcess, tmp_path: Path) -> None:
    with pytest.raises(errors.WorkspaceNotFound):
        connect(tmp_path)
    stopped_hub.start().kill()
    with pytest.raises(errors.HubNotRunning):
        connect(tmp_path)


def test_the_workspace_is_found_from_a_folder_inside_it(shared_hub: HubProcess) -> None:
    inside = shared_hub.root / "src" / "deep"
    inside.mkdir(parents=True, exist_ok=True)
    with connect(inside) as client:
        assert client.health().instance_id == shared_hub.server.instance_id


def test_a_text_that_is_not_unicode_is_refused_before_anything_is_sent(shared_hub: HubProcess) -> None:
    broken = "half \ud83d"
    with connect(shared_hub.root, sender="alice") as client:
        for call in (
            lambda: client.create_channel(broken),
            lambda: client.rename_topic(broken, "title"),
            lambda: client.get_message(broken),
            lambda: client.search(broken),
        ):
            with pytest.raises(errors.InvalidInput, match="UTF-8"):
                call()


def test_a_wrong_token_is_refused_as_such(shared_hub: HubProcess) -> None:
    with Client(shared_hub.root, token="0" * 64) as client, pytest.raises(errors.InvalidAuth):
        client.ping()
    with Client(url=shared_hub.server.base_url) as client, pytest.raises(errors.MissingAuth):
        client.list_channels()


def test_a_url_with_a_workspace_takes_the_token_from_disk(shared_hub: HubProcess) -> None:
    with Client(shared_hub.root, url=shared_hub.server.base_url) as client:
        assert client.ping().pong


def test_a_lost_answer_is_asked_for_again_and_the_message_is_posted_once(shared_hub: HubProcess) -> None:
    with connect(shared_hub.root, sender="alice") as direct:
        topic = direct.create_topic(direct.create_channel(fresh_name("general")).channel.id, "Plans").topic
        proxy = LossyProxy(shared_hub.server.port)
        try:
            with connect(url=proxy.url, token=shared_hub.server.auth_token, sender="bob") as client:
                for number in range(3):
                    proxy.answers_to_lose = number
                    result = client.send_message(topic.id, f"message {number}")
                    assert result.duplicate == (number > 0), "the hub had done it already"
                assert proxy.answers_lost == 3
        finally:
            proxy.close()
        contents = [message.content_raw for message in direct.tail_messages(topic.id).messages]
        assert contents == ["message 2", "message 1", "message 0"]


def test_calls_go_on_after_a_restart_on_another_port_and_with_another_token(hub: HubProcess) -> None:
    with connect(hub.root, sender="alice") as client:
        first = client.health().instance_id
        for number, end in enumerate((hub.stop, hub.kill)):
            end()
            hub.workspace.token.unlink()
            hub.workspace.last_port.unlink()
            hub.start()
            assert client.create_channel(f"channel-{number}").event_id
            assert client.health().instance_id != first


def test_calls_go_on_after_the_token_was_rotated(hub: HubProcess) -> None:
    hub.stop()
    (hub.root / "parley.toml").write_text("[hub]\ntoken_grace_seconds = 0.0\n")
    hub.start()
    with connect(hub.root) as client, connect(hub.root) as other:
        before = hub.server.auth_token
        assert client.rotate_token().rotated
        assert hub.server.auth_token != before
        assert client.ping().pong
        assert other.ping().pong


@pytest.mark.parametrize("name", [".", ".."])
def test_an_id_of_dots_is_an_id_and_no_step_through_the_path(shared_hub: HubProcess, name: str) -> None:
    with Client(url=shared_hub.server.base_url, token=shared_hub.server.auth_token) as client:
        with pytest.raises(errors.NotFound, match="Topic not found") as refused:
            client.get_topic(name)
        assert refused.value.details["topic_id"] == name


async def test_a_client_that_was_closed_says_so(shared_hub: HubProcess) -> None:
    client, other = Client(shared_hub.root), AsyncClient(shared_hub.root)
    client.health()
    await other.health()
    client.close()
    await other.aclose()
    with pytest.raises(errors.ClientClosed):
        client.health()
    with pytest.raises(errors.ClientClosed):
        await other.health()
