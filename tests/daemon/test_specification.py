"""What the specification asks of a daemon beyond sending and receiving, quoted where it is shown."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from parley.wire.broker import DeliveryAck, DeliveryAcked, FeatureParams, Features, Push
from parley.wire.invites import decode_invite, encode_invite
from tests.broker.process import Person, broker, connected
from tests.daemon.http.test_rest import begun
from tests.daemon.http.test_stream import arrive
from tests.daemon.machines import DEDUPE, FEATURES
from tests.daemon.older_mesh import met
from tests.daemon.scripted_broker import scripted_broker
from tests.daemon.served_daemon import BOB, MakeServed, ServedDaemon
from tests.daemon.test_exchange import invite, sends
from tests.daemon.world import push

LARGEST = 10_000_000
TEXT_BYTES = 60_000


def lines(served: ServedDaemon, event: str) -> list[dict[str, Any]]:
    """What the daemon's log says of something."""
    told = [json.loads(line) for line in served.log.getvalue().splitlines()]
    return [line for line in told if line["msg"] == event]


async def metric(served: ServedDaemon, name: str) -> float:
    """A metric, with its labels as they are shown; 0 where it is not there yet."""
    text = (await served.unix.get("/v1/metrics")).text
    return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} ")), 0.0)


async def test_m14_an_answer_above_ten_megabytes_is_paged_with_a_link(served: ServedDaemon) -> None:
    """Section 3.1: "Limits [S]: body 1 MB, response 10 MB (then `Link: rel=next`)"."""
    count = LARGEST // TEXT_BYTES + 40
    for number in range(count):
        await arrive(served, number, {}, text=f"page {number} " + "x" * TEXT_BYTES)
    for path in ("/v1/inbox?limit=1000", "/v1/inbox/search?q=page&limit=1000"):
        bodies: list[str] = []
        pages, following = 0, path
        while following:
            answer = await served.unix.get(following)
            assert len(answer.content) <= LARGEST
            bodies += [each["body"].split(" x")[0] for each in answer.json()["items"]]
            following = answer.links.get("next", {}).get("url", "")
            pages += 1
            if pages == 1 and path.startswith("/v1/inbox?"):
                shown = len(bodies)
                assert answer.json()["marked_seen"] == shown
                assert answer.json()["unseen"] == count - shown, "what was not shown is not seen"
        assert pages == 2
        assert bodies == [f"page {number}" for number in reversed(range(count))]


async def test_m14_the_outbox_is_paged_with_a_link_too(served: ServedDaemon) -> None:
    """Section 3.1: "response 10 MB (then `Link: rel=next`)". A page that its limit ends leads on in the same way."""
    for number in range(5):
        assert (await served.send(client_message_id=f"m-{number}")).status_code == 202
    found: list[str] = []
    following = "/v1/outbox?limit=2&status=pending"
    while following:
        answer = await served.unix.get(following)
        found += [each["client_message_id"] for each in answer.json()["items"]]
        following = answer.links.get("next", {}).get("url", "")
        assert "status=pending" in following or not following
    assert found == [f"m-{number}" for number in reversed(range(5))]
    assert (await served.unix.get("/v1/outbox?before=x")).status_code == 400


async def test_m14_an_unpatched_requeue_of_a_sessions_row_keeps_its_fingerprint(served: ServedDaemon) -> None:
    """Section 4.13: "Patched payload => recompute fingerprint AND re-encrypt; unpatched keeps both." and seed 000,
    4.5.2: "request_fingerprint is computed once at IPC accept time and frozen forever for the row's lifecycle."""
    header = await begun(served, "reviewer", role="critic")
    body = {"to": BOB, "message": "hello", "meta": {"a": 1}, "to_session": "builder"}
    sent = await served.unix.post("/v1/send", json={**body, "client_message_id": "m-1"}, headers=header)
    assert sent.status_code == 202
    await served.unix.post("/v1/outbox/requeue", json={"id": "m-1", "new_client_message_id": "m-2"})
    same = await served.unix.post("/v1/send", json={**body, "client_message_id": "m-2"}, headers=header)
    assert (same.status_code, same.json().get("status")) == (202, "queued"), same.text
    other = await served.unix.post(
        "/v1/send", json={**body, "message": "no", "client_message_id": "m-2"}, headers=header
    )
    assert other.json()["conflict"] == "outbox_pending_fingerprint_mismatch"
    patch = {"id": "m-2", "new_client_message_id": "m-3", "message": "patched"}
    assert (await served.unix.post("/v1/outbox/requeue", json=patch)).status_code == 200
    patched = {**body, "message": "patched", "client_message_id": "m-3"}
    assert (await served.unix.post("/v1/send", json=patched, headers=header)).status_code == 202


@pytest.mark.parametrize(
    ("meta", "key"),
    [('{"a":1,"a":2}', "a"), ('{"b":{"c":[{"d":1,"e":2,"d":3}]}}', "d"), ('{"a":1,"\\u0061":1}', "a")],
    ids=["plain", "nested", "escaped"],
)
@pytest.mark.parametrize("path", ["/v1/send", "/v1/topic/post"])
async def test_m14_duplicate_keys_in_meta_are_refused_at_the_door(
    served: ServedDaemon, path: str, meta: str, key: str
) -> None:
    """Section 4.3: "JCS in Python: … reject NaN/Inf, lone surrogates, duplicate keys."""
    where = f'"to":"{BOB}"' if path == "/v1/send" else '"topic":"alerts"'
    text = f'{{{where},"message":"hello","client_message_id":"m-1","meta":{meta}}}'
    kind = {"content-type": "application/json"}
    refused = await served.unix.post(path, content=text, headers=kind)
    assert (refused.status_code, refused.json().get("code")) == (400, "META_KEY_REPEATED")
    assert refused.json()["details"]["key"] == key
    fixed = await served.unix.post(path, content=text.replace(meta, '{"a":{"a":1}}'), headers=kind)
    assert fixed.status_code == 202, "the id was not used up"


async def test_meta_must_still_be_an_object(served: ServedDaemon) -> None:
    for meta in ("[]", "1", "null", '"x"'):
        text = f'{{"to":"{BOB}","message":"hello","meta":{meta}}}'
        refused = await served.unix.post("/v1/send", content=text, headers={"content-type": "application/json"})
        assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_INPUT")
        assert refused.json()["details"]["field"] == "meta"


async def test_m14_a_message_whose_history_was_pruned_is_done_warned_of_and_counted(make_served: MakeServed) -> None:
    """Seed 001, 4.5: "`200 duplicate` with `history_available: false` → mark `done`, log at WARN."; 4.12: "Duplicate
    row, history pruned: … Mark `done`, log `cm_daemon_dedupe_history_pruned_total`."""
    async with scripted_broker(make_served) as (scripted, served):
        line = await scripted.connected()
        for client_id, available in (("m-1", False), ("m-2", True)):
            assert (await served.send(client_message_id=client_id)).status_code == 202
            answer = {"broker_message_id": f"bm_{client_id}", "history_available": available}
            await line.accept(status=200, duplicate=True, **answer)
        await served.until(lambda: served.states() == {"done": 2})
        pruned = [each for each in lines(served, "message_history_pruned") if each["level"] == "warning"]
        assert [each["broker_message_id"] for each in pruned] == ["bm_m-1"]
        recognised = [each for each in lines(served, "message_recognised") if each["level"] == "info"]
        assert [each["broker_message_id"] for each in recognised] == ["bm_m-2"]
        assert await metric(served, 'parley_daemon_dedupe_history_pruned_total{mesh="team"}') == 1
        assert await metric(served, 'parley_daemon_dedupe_total{direction="out",mesh="team"}') == 2


@pytest.mark.parametrize(
    ("features", "kind"),
    [
        (replace(FEATURES, supported={"key_epoch": FeatureParams({"version": 1})}), "feature_unavailable"),
        (
            replace(
                FEATURES,
                supported={
                    **FEATURES.supported,
                    "client_message_id_dedupe": FeatureParams({**DEDUPE, "dedupe_retention_days": 3}),
                },
            ),
            "feature_param_below_floor",
        ),
    ],
    ids=["missing", "below the floor"],
)
async def test_m14_the_whole_negotiation_is_logged_when_a_feature_is_missing(
    make_served: MakeServed, features: Features, kind: str
) -> None:
    """Seed 001, 15.5: "Daemon logs the full negotiation payload at WARN before exiting"."""
    async with scripted_broker(make_served, features) as (scripted, served):
        await scripted.connected()
        await served.until(served.daemon.ended.is_set)
        told = lines(served, "feature_negotiation_failed")
        assert [each["level"] for each in told] == ["warning"]
        assert told[0]["kind"] == kind
        assert told[0]["required"] == ["client_message_id_dedupe", "concurrent_connection_policy"]
        assert "max_payload" in told[0]["optional"]
        assert told[0]["supported"] == {name: offer.params for name, offer in features.supported.items()}
        assert told[0]["missing_required"] == []


async def test_m14_the_five_metrics_count_reconnects_lag_decryption_dedupe_and_invalid_inbound(
    make_served: MakeServed,
) -> None:
    """Section 5.6: "_reconnects_total{mesh,reason}, _lag_ms, … _dedupe_total{mesh,direction}, …
    _invalid_inbound_total"; audit: "metrics of reconnects, lag, decryption, dedupe and invalid inbound"."""
    names = {
        "reconnects": 'parley_daemon_reconnects_total{mesh="team",reason="1011"}',
        "decrypt": 'parley_daemon_decrypt_failures_total{mesh="team"}',
        "dedupe": 'parley_daemon_dedupe_total{direction="in",mesh="team"}',
        "invalid": 'parley_daemon_invalid_inbound_total{mesh="team"}',
    }
    async with scripted_broker(make_served) as (scripted, served):
        line = await scripted.connected()
        await line.deliver(push(1, "m-1"))
        await line.deliver(push(2, "m-1"))
        await line.deliver(push(3, "m-2"))
        await line.socket.send("this is no frame")
        await line.deliver(push(4, "m-2"))
        await line.socket.close(1011, "the broker failed")
        line = await scripted.connected()
        await line.deliver(push(5, "m-3"))
        counted = {name: await metric(served, shown) for name, shown in names.items()}
        assert counted == {"reconnects": 1, "decrypt": 3, "dedupe": 2, "invalid": 1}
        health = (await served.unix.get("/v1/health")).json()
        assert health["lag_ms"] >= 0
        assert health["meshes"][0]["lag_ms"] >= 0
        assert "\nparley_daemon_lag_ms " in (await served.unix.get("/v1/metrics")).text


async def test_m14_reached_tells_what_could_not_be_opened_apart_from_what_was_delivered(
    tmp_path: Path, make_served: MakeServed
) -> None:
    """Audit: "`reached` counts what could not be opened as delivered". Section 5.1: "store as `undecryptable` with
    ciphertext kept, event `decrypt_failed`, do not ack as delivered (or ack with status)"."""
    with broker(tmp_path / "broker", "--open-creation") as process:
        alice, bob = await met(process.url, "sealed", make_served)
        stranger = Person("stranger")
        public = encode_invite(decode_invite(await invite(alice))[0])
        assert (await stranger.join(process.http, public)).status_code == 201
        async with connected(stranger, process.url) as peer:
            await sends(alice, "*", "for everybody who has the key")
            await bob.until(lambda: bob.bodies() == ["for everybody who has the key"])
            await alice.until(lambda: alice.states() == {"done": 1})
            delivered = await peer.hear(Push)
            await peer.say(DeliveryAck([DeliveryAcked(delivered.delivery_id, "undecryptable")]))
            await peer.request("grants")  # what was said before it has been done
            reached: dict[str, int] = {}
            async with asyncio.timeout(60):
                while reached.get("delivered", 0) + reached.get("undecryptable", 0) < 2:  # bob's word may be on its way
                    (item,) = (await alice.unix.get("/v1/outbox?reached=true")).json()["items"]
                    reached = item["reached"] or {}
        assert reached == {"recipients": 2, "delivered": 1, "dead": 0, "undecryptable": 1}
