"""One call with its retries: what is repeated, with what, for how long, and what is raised at once."""

from dataclasses import replace

import pytest

from parley.client.backoff import Backoff
from parley.client.calls import Caller, create_channel, ping, send_message
from parley.client.retry import SOCKET_TRIED_EVERY, Hub, Patience
from parley.client.steps import HubAddress, Reply, Request, Steps
from parley.core.errors import (
    ConnectionFailed,
    HubNotRunning,
    InternalError,
    InvalidAuth,
    InvalidInput,
    NotFound,
    ParleyError,
    RateLimited,
    ServiceUnavailable,
    ShuttingDown,
    VersionConflict,
)
from parley.core.wire_errors import UnknownRefusal
from parley.wire.answers import ChannelResult, Pong
from parley.wire.entities import Channel
from tests.client.world import ADDRESS, World, healthy, ok, refusal, script

CREATED = ok(ChannelResult(Channel("ch_1", "general", None, ""), 1), 201)
LOST = ConnectionFailed("connection reset")
BUSY = refusal(ServiceUnavailable("busy", reason="busy"), "2")


class Places:
    """Where the hub is found, one look after the other; the last place is found for ever."""

    def __init__(self, *places: HubAddress | ParleyError) -> None:
        self.places = list(places)
        self.looks = 0

    def locate(self) -> Steps[HubAddress]:
        self.looks += 1
        place = self.places.pop(0) if len(self.places) > 1 else self.places[0]
        if isinstance(place, ParleyError):
            raise place
        return place
        yield  # a generator, as the real one


def hub(places: Places, patience_seconds: float = 30.0) -> Hub:
    return Hub(
        places.locate,
        agent="tester",
        patience=Patience(patience_seconds, Backoff(1.0, 8.0)),
        random=lambda: 1.0,
    )


def caller() -> Caller:
    keys = iter(f"key-{number}" for number in range(100))
    return Caller("alice", lambda: next(keys))


def elsewhere(url: str = "http://127.0.0.1:5000", token: str = "token-two") -> HubAddress:
    return HubAddress(url, token, "db", "instance-2")


@pytest.mark.parametrize("transient", [LOST, BUSY, refusal(RateLimited(limit=1, retry_after=1.0), "2")])
def test_a_transient_failure_is_repeated_with_the_same_key_and_body(transient: Reply | ConnectionFailed) -> None:
    world = World(script(transient, transient, CREATED))
    result = world.run(hub(Places(ADDRESS)).perform(create_channel(caller(), "general")))
    assert result.channel.name == "general"
    assert [request.headers["Idempotency-Key"] for request in world.requests] == ["key-0"] * 3
    assert len({request.body for request in world.requests}) == 1


def test_a_given_key_is_used_and_two_calls_never_share_a_made_one() -> None:
    world = World(lambda _: CREATED)
    client, server = caller(), hub(Places(ADDRESS))
    world.run(server.perform(create_channel(client, "a")))
    world.run(server.perform(create_channel(client, "b")))
    world.run(server.perform(create_channel(client, "c", idempotency_key="mine")))
    assert [request.headers["Idempotency-Key"] for request in world.requests] == ["key-0", "key-1", "mine"]


def test_a_client_message_id_is_the_key_and_no_other_is_sent() -> None:
    call = send_message(caller(), "topic_1", "hi", client_message_id="m-1")
    assert call.idempotency_key is None
    assert call.body == b'{"topic_id":"topic_1","sender":"alice","content_raw":"hi","client_message_id":"m-1"}'


def test_a_message_needs_a_sender() -> None:
    with pytest.raises(InvalidInput, match="sender"):
        send_message(Caller(None, lambda: "key"), "topic_1", "hi")


def test_the_wait_is_what_the_hub_asked_for_and_a_growing_jittered_rest() -> None:
    world = World(script(BUSY, LOST, LOST, BUSY, CREATED))
    world.run(hub(Places(ADDRESS)).perform(create_channel(caller(), "general")))
    assert world.pauses == [2 + 1, 2, 4, 2 + 8]


def test_patience_ends_with_the_last_failure() -> None:
    world = World(lambda _: LOST)
    with pytest.raises(ConnectionFailed):
        world.run(hub(Places(ADDRESS), patience_seconds=10).perform(create_channel(caller(), "general")))
    assert world.pauses == [1, 2, 4], "the next wait of 8 s would be more than 10 s in all"


def test_a_client_without_patience_asks_once() -> None:
    world = World(lambda _: BUSY)
    with pytest.raises(ServiceUnavailable):
        world.run(hub(Places(ADDRESS), patience_seconds=0).perform(create_channel(caller(), "general")))
    assert len(world.requests) == 1
    assert world.pauses == []


@pytest.mark.parametrize(
    "error",
    [
        NotFound("Channel not found", channel_id="ch_9"),
        VersionConflict("msg_1", expected=1, current=2),
        InternalError(request_id="r-1"),
    ],
)
def test_a_permanent_refusal_is_raised_at_once_as_its_class_with_its_details(error: ParleyError) -> None:
    world = World(lambda _: refusal(error))
    with pytest.raises(type(error)) as raised:
        world.run(hub(Places(ADDRESS)).perform(create_channel(caller(), "general")))
    assert (raised.value.message, raised.value.details) == (error.message, error.details)
    assert len(world.requests) == 1


def test_a_hub_that_stops_is_found_again_where_it_starts_next() -> None:
    places = Places(ADDRESS, HubNotRunning("gone"), HubNotRunning("gone"), elsewhere())
    world = World(lambda request: CREATED if ":5000" in request.url else LOST)
    world.run(hub(places).perform(create_channel(caller(), "general")))
    assert [request.url for request in world.requests] == [
        "http://127.0.0.1:4000/api/v1/channels",
        "http://127.0.0.1:5000/api/v1/channels",
    ], "the old address is not sent the token again: somebody else may listen there"
    assert world.requests[-1].headers["Authorization"] == "Bearer token-two"
    assert len(world.pauses) == 3


def test_a_hub_that_is_shutting_down_is_given_the_time_it_asks_for() -> None:
    world = World(script(refusal(ShuttingDown(), "10"), CREATED))
    world.run(hub(Places(ADDRESS)).perform(create_channel(caller(), "general")))
    assert world.pauses == [11]


def test_a_hub_that_was_never_met_is_not_waited_for() -> None:
    world = World(lambda _: CREATED)
    with pytest.raises(HubNotRunning):
        world.run(hub(Places(HubNotRunning("none"))).perform(create_channel(caller(), "general")))
    assert world.pauses == []


def test_a_rotated_token_is_read_again_without_a_wait() -> None:
    world = World(script(refusal(InvalidAuth("Unauthorized")), CREATED))
    world.run(hub(Places(ADDRESS, elsewhere())).perform(create_channel(caller(), "general")))
    assert [request.headers["Authorization"] for request in world.requests] == ["Bearer token-one", "Bearer token-two"]
    assert world.pauses == []


def test_a_token_that_is_still_the_same_is_wrong() -> None:
    world = World(lambda _: refusal(InvalidAuth("Unauthorized")))
    places = Places(ADDRESS)
    with pytest.raises(InvalidAuth):
        world.run(hub(places).perform(create_channel(caller(), "general")))
    assert len(world.requests) == 1
    assert places.looks == 2


def test_an_answer_that_cannot_be_read_is_an_error_that_names_the_call() -> None:
    world = World(lambda _: Reply(200, b"<html>"))
    with pytest.raises(InternalError, match="POST /api/v1/_ping"):
        world.run(hub(Places(ADDRESS)).perform(ping(caller())))


def test_an_unknown_code_keeps_its_status_and_is_retried_by_it() -> None:
    strange = Reply(503, b'{"error":"later","code":"TIDE_IS_OUT","details":{"until":"noon"}}', "1")
    world = World(script(strange, CREATED))
    world.run(hub(Places(ADDRESS)).perform(create_channel(caller(), "general")))
    assert world.pauses == [2]
    world = World(lambda _: Reply(418, b'{"error":"no","code":"TEAPOT","details":{"a":1}}'))
    with pytest.raises(UnknownRefusal) as raised:
        world.run(hub(Places(ADDRESS)).perform(create_channel(caller(), "general")))
    assert (raised.value.code, raised.value.status, raised.value.details) == ("TEAPOT", 418, {"a": 1})


def test_the_agent_is_named_in_every_request_and_the_token_goes_along() -> None:
    world = World(lambda _: ok(Pong(True, "instance")))
    world.run(hub(Places(ADDRESS)).perform(ping(caller())))
    assert world.requests[0].headers == {
        "Authorization": "Bearer token-one",
        "X-Parley-Agent": "tester",
        "Content-Type": "application/json",
    }
    assert "token-one" not in repr(world.requests[0])
    assert "token-one" not in repr(ADDRESS)


def test_a_call_through_files_goes_back_to_the_socket_as_soon_as_it_answers_again() -> None:
    by_file = replace(ADDRESS, base_url="spool://folder", socket_url=ADDRESS.base_url)
    works = False

    def answers(request: Request) -> Reply | ConnectionFailed:
        if request.url == f"{ADDRESS.base_url}/health":
            return healthy() if works else LOST
        return ok(Pong(True, "instance"))

    places, world = Places(by_file, ADDRESS), World(answers)
    client = hub(places)
    for _ in range(2 * SOCKET_TRIED_EVERY):
        world.run(client.perform(ping(caller())))
    assert places.looks == 1
    tries = [request for request in world.requests if request.url.endswith("/health")]
    assert [request.headers for request in tries] == [{}, {}], "tried now and then, and without the token"
    works = True
    for _ in range(SOCKET_TRIED_EVERY):
        world.run(client.perform(ping(caller())))
    assert places.looks == 2
    assert world.requests[-1].url.startswith(ADDRESS.base_url)


@pytest.mark.parametrize("key", ["réponse-1", "a\nb", " lead", "in side", "\x7f", "\ud800", "k" * 201])
def test_a_key_that_no_hub_takes_is_refused_before_one_is_asked(key: str) -> None:
    world = World(lambda _: CREATED)
    with pytest.raises(InvalidInput, match="idempotency_key") as raised:
        world.run(hub(Places(ADDRESS)).perform(create_channel(caller(), "general", idempotency_key=key)))
    assert raised.value.details == {"field": "idempotency_key"}
    assert world.requests == []


@pytest.mark.parametrize("name", ["josé", "a\nb", " ann", "ann ", "\udce9"])
def test_a_name_that_no_header_carries_is_refused_before_a_hub_is_asked(name: str) -> None:
    world, client = World(lambda _: ok(Pong(True, "instance"))), hub(Places(ADDRESS))
    world.run(client.perform(ping(caller())))
    client.agent = name
    for refused in (client.perform(ping(caller())), client.reach()):
        with pytest.raises(InvalidInput, match="PARLEY_AGENT must be letters"):
            world.run(refused)
    assert len(world.requests) == 1
