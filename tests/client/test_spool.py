"""A client that was driven to the spool, because the hub's socket did not answer for a moment."""

from collections.abc import Iterator

import pytest

from parley.client import Client, StateChange
from parley.client.retry import SOCKET_TRIED_EVERY
from tests.client.hubs import HubProcess, LossyProxy
from tests.workspace.databases import add_channel, writing


@pytest.fixture
def socket(hub: HubProcess) -> Iterator[LossyProxy]:
    """The way to the hub's socket, which leads nowhere for now."""
    proxy = LossyProxy(hub.server.port)
    proxy.deaf = True
    proxy.stand_before(hub)
    yield proxy
    proxy.close()


def test_calls_go_back_to_the_socket_when_it_works_again(hub: HubProcess, socket: LossyProxy) -> None:
    with Client(hub.root) as client:
        assert client.ping().pong
        socket.deaf = False
        for _ in range(SOCKET_TRIED_EVERY):
            assert client.ping().pong
        before = socket.answers_passed
        assert client.ping().pong
        assert socket.answers_passed > before


def test_a_feed_goes_back_to_the_socket_and_misses_nothing(hub: HubProcess, socket: LossyProxy) -> None:
    def say_so(change: StateChange) -> None:
        if change.name == "reconnected":
            with Client(hub.root) as other:
                other.create_channel("by-socket")

    with Client(hub.root) as client, client.events(0, on_state=say_so) as feed:
        client.create_channel("by-file")
        assert next(feed).data["channel"]["name"] == "by-file"
        assert socket.answers_passed == 0
        socket.deaf = False
        assert next(feed).data["channel"]["name"] == "by-socket"


def test_a_feed_through_the_spool_takes_an_id_for_the_channel_that_has_it(hub: HubProcess, socket: LossyProxy) -> None:
    with Client(hub.root) as client:
        first = client.create_channel("first").channel.id
        with writing(hub.workspace) as connection:
            second = add_channel(connection, "ch_second", name=first)
        with client.events(1, channels=[first, "later"]) as feed:
            client.create_topic(second, "of another channel")
            client.create_topic(first, "of this one")
            assert next(feed).data["topic"]["title"] == "of this one"
            assert client.create_channel("later").channel.name == next(feed).data["channel"]["name"]
