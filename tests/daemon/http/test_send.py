"""Sending through the local API: the id, the size, the destination, and what is told of a row afterwards."""

from typing import Any

import pytest

from parley.daemon.inbox.receive import receive
from parley.daemon.outbox.rows import by_client_id
from parley.daemon.outbox.sending import Dead, Done, settle
from parley.daemon.outbox.terms import Terms
from parley.daemon.roster import Peer, Roster
from parley.wire.broker import Push
from tests.daemon.served_daemon import BOB, EVE, MakeServed, ServedDaemon
from tests.daemon.world import opens, push


async def test_a_message_is_on_disk_when_the_answer_comes_also_while_the_broker_is_away(served: ServedDaemon) -> None:
    answer = await served.send(client_message_id="m-1")
    assert answer.status_code == 202
    assert answer.json()["status"] == "queued"
    row = served.daemon.store.read_outbox(lambda db: by_client_id(db, "m-1"))
    assert row is not None
    assert (row.destination_kind, row.destination_ref, row.payload) == ("dm", BOB, b"hello")
    assert b"hello" not in row.sealed


async def test_an_id_is_made_up_where_none_is_given(served: ServedDaemon) -> None:
    first, second = (await served.send()).json(), (await served.send()).json()
    assert first["client_message_id"] != second["client_message_id"]


async def test_a_retry_is_answered_from_its_row_and_another_message_is_refused(served: ServedDaemon) -> None:
    await served.send(client_message_id="m-1")
    again = await served.send(client_message_id="m-1")
    assert (again.status_code, again.json()["status"]) == (202, "queued")
    other = await served.send(client_message_id="m-1", message="other")
    body = other.json()
    assert (other.status_code, body["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert body["conflict"] == "outbox_pending_fingerprint_mismatch"
    assert len(body["daemon_fingerprint_prefix"]) == 16
    assert body["broker_message_id"] is None


async def test_a_done_row_answers_with_what_the_broker_gave(served: ServedDaemon) -> None:
    await served.send(client_message_id="m-1")
    await served.daemon.store.write_outbox(lambda db: settle(db, Done("m-1", "bm_1", 7), now_ms=1))
    answer = await served.send(client_message_id="m-1")
    assert answer.status_code == 200
    body = answer.json()
    assert (body["duplicate"], body["broker_message_id"], body["history_id"]) == (True, "bm_1", 7)


async def test_a_dead_row_says_why(served: ServedDaemon) -> None:
    await served.send(client_message_id="m-1")
    await served.daemon.store.write_outbox(lambda db: settle(db, Dead("m-1", "too large"), now_ms=1))
    body = (await served.send(client_message_id="m-1")).json()
    assert (body["conflict"], body["reason"]) == ("outbox_dead_fingerprint_match", "too large")


async def test_the_header_is_the_id_and_must_not_differ_from_the_body(served: ServedDaemon) -> None:
    body = {"to": BOB, "message": "hello"}
    answer = await served.unix.post("/v1/send", json=body, headers={"idempotency-key": "k-1"})
    assert answer.json()["client_message_id"] == "k-1"
    both = await served.unix.post(
        "/v1/send", json={**body, "client_message_id": "k-2"}, headers={"idempotency-key": "k-1"}
    )
    assert (both.status_code, both.json()["code"]) == (400, "IDEMPOTENCY_KEY_CONFLICT")
    bad = await served.unix.post("/v1/send", json=body, headers={"idempotency-key": "a b"})
    assert bad.status_code == 400


async def test_what_the_broker_would_not_take_is_refused_before_there_is_a_row(served: ServedDaemon) -> None:
    served.daemon.mesh("team").runner.terms = Terms(1024, 1000)
    answer = await served.send(message="x" * 1024, client_message_id="m-1")
    assert (answer.status_code, answer.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert (await served.send(message="x", client_message_id="m-1")).status_code == 202, "the id was not used up"


async def test_a_full_outbox_takes_nothing_more(make_served: MakeServed) -> None:
    served = await make_served(outbox={"rows_max": 1})
    assert (await served.send()).status_code == 202
    served.daemon.capacity._share_at = float("-inf")  # pyright: ignore[reportPrivateUsage]
    answer = await served.send()
    assert (answer.status_code, answer.json()["code"]) == (507, "INSUFFICIENT_STORAGE")


@pytest.mark.parametrize(
    ("to", "kind", "ref"), [("#alerts", "topic", "alerts"), ("@ops/eu", "queue", "@ops/eu"), ("*", "queue", "*")]
)
async def test_topics_groups_and_everybody_need_no_roster(served: ServedDaemon, to: str, kind: str, ref: str) -> None:
    answer = await served.send(to=to, client_message_id="m-1")
    assert answer.status_code == 202
    row = served.daemon.store.read_outbox(lambda db: by_client_id(db, "m-1"))
    assert row is not None
    assert (row.destination_kind, row.destination_ref, row.key_epoch) == (kind, ref, 1)


def enrol(served: ServedDaemon, slug: str, *peers: Peer) -> None:
    mesh = served.daemon.mesh(slug)
    mesh.roster = Roster(mesh.mesh_id, mesh.slug, list(peers))


async def test_names_are_looked_up_in_the_roster(served: ServedDaemon) -> None:
    enrol(served, "team", Peer("mem_b", BOB, "Bob"), Peer("mem_c", "c" * 64, "Carol", state="left"))
    for to in ("bob", "BOB", "mem_b", BOB[:20]):
        assert (await served.send(to=to)).status_code == 202
    for to in ("carol", "bo", "d" * 20):
        answer = await served.send(to=to)
        assert (answer.status_code, answer.json()["code"]) == (404, "DESTINATION_UNKNOWN")
    assert (await served.send(to="Bop")).json()["details"]["candidates"] == ["Bob"]


async def test_a_name_that_fits_two_is_refused_with_both(served: ServedDaemon) -> None:
    enrol(served, "team", Peer("mem_1", "1" * 64, "Bob"), Peer("mem_2", "2" * 64, "bob"))
    answer = await served.send(to="bob")
    assert answer.status_code == 404
    assert len(answer.json()["details"]["candidates"]) == 2
    assert all(key * 64 in answer.json()["error"] for key in "12")


async def test_nobody_gets_anothers_messages_by_taking_its_key_for_a_name(served: ServedDaemon) -> None:
    impostors = (BOB, BOB[:20], BOB[:20].upper(), "mem_b", BOB.upper())
    others = [Peer(f"mem_{number}", f"{number}" * 64, name) for number, name in enumerate(impostors)]
    enrol(served, "team", Peer("mem_b", BOB, "Bob"), *others)
    for number, to in enumerate((BOB, BOB.upper(), BOB[:20], BOB[:20].upper(), "mem_b", "bob")):
        client_id = f"m-{number}"
        assert (await served.send(to=to, client_message_id=client_id)).status_code == 202
        row = served.daemon.store.read_outbox(lambda db, wanted=client_id: by_client_id(db, wanted))
        assert row is not None
        assert row.destination_ref == BOB


async def test_a_new_name_needs_the_roster_but_a_retry_does_not(served: ServedDaemon) -> None:
    answer = await served.send(to="bob", client_message_id="m-1")
    assert (answer.status_code, answer.json()["code"]) == (502, "MESH_UNREACHABLE")
    enrol(served, "team", Peer("mem_b", BOB, "Bob"))
    assert (await served.send(to="bob", client_message_id="m-1")).status_code == 202
    mesh = served.daemon.mesh("team")
    mesh.roster = Roster(mesh.mesh_id, mesh.slug)
    assert (await served.send(to="bob", client_message_id="m-1")).status_code == 202


async def test_with_several_meshes_the_one_is_meant_in_which_the_name_is(make_served: MakeServed) -> None:
    served = await make_served("home", "work")
    enrol(served, "home", Peer("mem_b", BOB, "Bob"), Peer("mem_x", "e" * 64, "Eve"))
    enrol(served, "work", Peer("mem_y", EVE, "Eve"))
    assert (await served.send(to="bob")).json()["mesh"] == "home"
    for to in ("eve", "#alerts", "*"):
        answer = await served.send(to=to)
        assert (answer.status_code, answer.json()["code"]) == (400, "MESH_REQUIRED")
        assert answer.json()["attached"] == ["home", "work"]
    assert (await served.send(to="eve", mesh="work")).json()["mesh"] == "work"
    unknown = await served.send(to="eve", mesh="nowhere")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "MESH_NOT_ATTACHED")


async def test_without_a_mesh_nothing_is_taken(served: ServedDaemon) -> None:
    await served.daemon.detach("mesh_team")
    answer = await served.send()
    assert (answer.status_code, answer.json()["code"]) == (409, "NO_MESH_JOINED")


async def test_an_answer_names_its_message_as_the_inbox_shows_it(served: ServedDaemon) -> None:
    arrived, now_ms = push(1, "theirs").message, served.clock.now_ms()  # what is older than the retention may be gone
    await served.daemon.store.write_inbox(
        lambda db: receive(
            db, Push(1, 1, False, arrived), opens, mesh_id="mesh_team", recipient_id="me", row_id="in_7", now_ms=now_ms
        )
    )
    assert (await served.send(reply_to_id="in_7", client_message_id="m-1")).status_code == 202
    row = served.daemon.store.read_outbox(lambda db: by_client_id(db, "m-1"))
    assert row is not None
    assert row.reply_to_id == arrived.broker_message_id
    unknown = await served.send(reply_to_id="in_8")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "NOT_FOUND")
    assert "parley daemon inbox list" in unknown.json()["hint"]
    await served.unix.delete("/v1/inbox/in_7")
    assert (await served.send(reply_to_id="in_7", client_message_id="m-1")).status_code == 202, "a repetition"


async def test_rows_are_listed_inspected_requeued_dropped_and_pruned(served: ServedDaemon) -> None:
    first = (await served.send(client_message_id="m-1", meta={"a": 1})).json()["id"]
    assert [each["id"] for each in (await served.unix.get("/v1/outbox?status=pending")).json()["items"]] == [first]
    assert (await served.unix.get("/v1/outbox?status=sent")).status_code == 400
    body = {"id": "m-1", "message": "better", "new_client_message_id": "m-2"}
    requeued = (await served.unix.post("/v1/outbox/requeue", json=body)).json()
    assert (requeued["aborted_row_id"], requeued["new_client_message_id"]) == (first, "m-2")
    shown = (await served.unix.get("/v1/outbox/m-2")).json()
    assert (shown["message"], [each["client_message_id"] for each in shown["chain"]]) == ("better", ["m-1", "m-2"])
    again = await served.unix.post("/v1/outbox/requeue", json=body)
    assert (again.status_code, again.json()["code"], again.json()["reason"]) == (409, "OUTBOX_CONFLICT", "aborted")
    assert (await served.unix.post("/v1/outbox/drop", json={"id": "m-2"})).json()["status"] == "aborted"
    assert (await served.unix.post("/v1/outbox/prune", json={"older_than_days": 0})).json()["pruned"] >= 0
    assert (await served.unix.get("/v1/outbox/nothing")).status_code == 404


async def test_a_requeue_without_a_patch_keeps_the_very_bytes(served: ServedDaemon) -> None:
    await served.send(client_message_id="m-1", meta={"a": 1}, priority="now")
    new = (await served.unix.post("/v1/outbox/requeue", json={"id": "m-1"})).json()["new_client_message_id"]
    old_row = served.daemon.store.read_outbox(lambda db: by_client_id(db, "m-1"))
    new_row = served.daemon.store.read_outbox(lambda db: by_client_id(db, new))
    assert old_row is not None
    assert new_row is not None
    assert (new_row.sealed, new_row.meta, new_row.priority) == (old_row.sealed, '{"a":1}', "now")


async def test_a_full_disk_is_told_as_such_and_takes_messages_again_once_there_is_room(served: ServedDaemon) -> None:
    def pages(most: int) -> Any:
        return served.daemon.store.write_outbox(lambda db: db.execute(f"PRAGMA max_page_count={most}").fetchall())

    await pages(1)  # as many as there are already
    refused = await served.send(message="x" * 20_000)
    assert (refused.status_code, refused.json()["code"]) == (507, "INSUFFICIENT_STORAGE")
    assert refused.json()["details"]["reason"] == "disk_full"
    await pages(1_000_000)
    assert (await served.send(message="x" * 20_000)).status_code == 202
