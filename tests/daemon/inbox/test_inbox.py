"""What arrives is stored once, kept when it cannot be read, and told of in a log with a cursor."""

from contextlib import suppress

import apsw
import pytest

from parley.core.clock import iso
from parley.core.daemon_errors import InsufficientStorage
from parley.core.errors import NotFound
from parley.core.roster.heads import Head
from parley.daemon.held import held_bytes
from parley.daemon.hooks.rules import hooks_for
from parley.daemon.inbox.events import DaemonEvent, append_event, events_after, newest_event, oldest_event, prune_events
from parley.daemon.inbox.reading import (
    Filter,
    mark_seen,
    message,
    messages_at,
    newest_seq,
    page,
    search,
    unseen_and_sealed,
)
from parley.daemon.inbox.receive import (
    REOPENED_BYTES_MAX,
    Opened,
    Opener,
    Outcome,
    Received,
    SealedMessage,
    TurnedDown,
    Waiting,
    open_kept,
    receive,
)
from parley.daemon.inbox.renewal import mark_renewed
from parley.daemon.inbox.retention import (
    REMEMBERED_MS,
    ROW_BYTES,
    flush,
    make_room,
    prune_forgotten,
    prune_inbox,
    remove,
)
from parley.wire.broker import Push
from tests.daemon.world import BOB, NOW, commit, opens, opens_nothing, push


def arrive(
    inbox: apsw.Connection,
    delivery: Push,
    *,
    opener: Opener = opens,
    row_id: str | None = None,
    now_ms: int = NOW,
    recipient_id: str = "mem_bob",
    mesh_id: str = "mesh_1",
    bytes_max: int | None = None,
) -> Received:
    name = row_id or f"in_{mesh_id}_{recipient_id}_{delivery.message.sender_id}_{delivery.message.client_message_id}"
    return commit(
        inbox,
        lambda db: receive(
            db,
            delivery,
            opener,
            mesh_id=mesh_id,
            recipient_id=recipient_id,
            row_id=name,
            now_ms=now_ms,
            bytes_max=bytes_max,
        ),
    )


def bodies(inbox: apsw.Connection, wanted: Filter | None = None) -> list[str | None]:
    return [each.body for each in page(inbox, wanted or Filter(), 100)]


def test_a_delivery_is_stored_with_all_that_came_with_it(inbox: apsw.Connection) -> None:
    received = arrive(inbox, push(reply_to="bm_0", priority="now"))
    assert (received.delivery_id, received.status) == (1, "stored")
    (stored,) = page(inbox, Filter(), 10)
    assert (stored.body, stored.reply_to_id, stored.priority) == ("hello", "bm_0", "now")
    assert (stored.sender_name, stored.broker_message_id, stored.received_at) == ("alice", "bm_m-1", NOW)


def test_a_delivery_that_comes_again_is_acknowledged_and_stored_once(inbox: apsw.Connection) -> None:
    arrive(inbox, push(1))
    again = arrive(inbox, push(2), row_id="in_other")
    assert (again.delivery_id, again.status, again.event) == (2, "stored", None)
    assert bodies(inbox) == ["hello"]
    assert len(events_after(inbox, 0, 10)) == 1


def test_nobody_can_keep_anothers_message_out_by_using_its_id_first(inbox: apsw.Connection) -> None:
    arrive(inbox, push(1, "deploy-42", "from mallory", sender_id="mem_mallory", sender="c" * 64))
    arrive(inbox, push(2, "deploy-42", "from alice"))
    assert bodies(inbox) == ["from alice", "from mallory"]


def test_each_local_recipient_of_one_message_gets_it(inbox: apsw.Connection) -> None:
    arrive(inbox, push(1), recipient_id="mem_bob")
    arrive(inbox, push(2), recipient_id="mem_carol")
    arrive(inbox, push(3), mesh_id="mesh_2")
    assert bodies(inbox) == ["hello", "hello", "hello"]


def test_what_cannot_be_opened_is_kept_flagged_and_acknowledged_as_such(inbox: apsw.Connection) -> None:
    received = arrive(inbox, push(1), opener=opens_nothing)
    assert received.status == "undecryptable"
    assert received.event is not None
    assert received.event.kind == "decrypt_failed"
    assert bodies(inbox) == [None]
    assert unseen_and_sealed(inbox) == (1, 1)
    assert arrive(inbox, push(2), row_id="in_2").status == "undecryptable", "also when it comes again"


def test_what_was_kept_is_opened_when_a_key_arrives(inbox: apsw.Connection) -> None:
    arrive(inbox, push(1), opener=opens_nothing)
    assert commit(inbox, lambda db: open_kept(db, opens_nothing, mesh_id="mesh_1", now_ms=NOW)) == ([], None, [])
    ((event,), *_) = commit(inbox, lambda db: open_kept(db, opens, mesh_id="mesh_1", now_ms=NOW))
    assert event.kind == "message_opened"
    assert bodies(inbox) == ["hello"]
    assert [each.body for each in search(inbox, "hello", Filter(), 10)] == ["hello"]
    assert arrive(inbox, push(2), row_id="in_2").status == "stored"


def test_what_is_not_to_be_believed_is_kept_with_the_reason_and_not_shown_as_said(inbox: apsw.Connection) -> None:
    received = arrive(inbox, push(1), opener=lambda message: TurnedDown("sender_removed"))
    assert received.status == "stored"
    assert received.event is not None
    assert (received.event.kind, received.event.data["reason"]) == ("message_refused", "sender_removed")
    (kept,) = page(inbox, Filter(), 10)
    assert (kept.body, kept.refused) == (None, "sender_removed")
    assert unseen_and_sealed(inbox) == (1, 0), "no key is missing"
    assert commit(inbox, lambda db: open_kept(db, opens, mesh_id="mesh_1", now_ms=NOW)).events == []
    again = arrive(inbox, push(2), opener=opens)
    assert (again.status, again.event) == ("stored", None), "the same id is the same message"


def test_what_waits_for_the_roster_is_shown_and_told_of_once_it_was_judged(inbox: apsw.Connection) -> None:
    head = Head(9, "ab" * 32, "cd" * 64)
    for number in (1, 2, 3):
        received = arrive(inbox, push(number, f"m-{number}"), row_id=f"in_{number}", opener=lambda _: Waiting(head))
        assert (received.status, received.event, received.waits, received.head) == ("stored", None, True, head)
    assert page(inbox, Filter(), 10) == []
    asked: list[bool] = []

    def judges(message: SealedMessage) -> Outcome:
        asked.append(message.again)
        found: dict[str, Outcome] = {"m-1": Opened("hello", {}, head), "m-2": TurnedDown("lied"), "m-3": None}
        return found[message.client_message_id] if message.again else Waiting(head)

    waits = commit(inbox, lambda db: open_kept(db, judges, mesh_id="mesh_1", now_ms=NOW))
    assert (waits.events, waits.heads) == ([], [("mem_alice", head)] * 3)
    last = newest_seq(inbox)
    judged = commit(inbox, lambda db: open_kept(db, judges, mesh_id="mesh_1", now_ms=NOW, judged_seq=last))
    assert [each.kind for each in judged.events] == ["message", "message_refused", "decrypt_failed"]
    assert [(each.body, each.refused) for each in reversed(page(inbox, Filter(), 10))] == [
        ("hello", None),
        (None, "lied"),
        (None, None),
    ]
    assert asked == [False] * 3 + [True] * 3


def test_much_that_was_kept_is_opened_in_parts(inbox: apsw.Connection) -> None:
    for number in range(7):
        arrive(inbox, push(number, str(number), "x" * 100_000), row_id=f"in_{number}", opener=opens_nothing)
    parts: list[int] = []
    after: int | None = 0
    while after is not None:
        events, after, _ = commit(
            inbox, lambda db, after=after: open_kept(db, opens, mesh_id="mesh_1", now_ms=NOW, after_seq=after, limit=5)
        )
        parts.append(len(events))
    assert (parts, unseen_and_sealed(inbox)) == ([3, 3, 1], (7, 0))
    assert REOPENED_BYTES_MAX == 256 * 1024


def test_a_body_that_is_not_even_base64_is_kept_as_it_came(inbox: apsw.Connection) -> None:
    assert arrive(inbox, push(1, body="no base64!")).status == "undecryptable"
    kept = inbox.execute("SELECT sealed FROM inbox").fetchall()
    assert kept == [(b"no base64!",)]


def test_pages_are_newest_first_and_filtered(inbox: apsw.Connection) -> None:
    arrive(inbox, push(1, "1", "one", kind="topic", ref="alerts"))
    arrive(inbox, push(2, "2", "two"), now_ms=NOW + 10)
    arrive(inbox, push(3, "3", "three", sender_id="mem_c", sender="c" * 64, sender_name="carol"), mesh_id="mesh_2")
    assert bodies(inbox) == ["three", "two", "one"]
    assert bodies(inbox, Filter(topic="alerts")) == ["one"]
    assert bodies(inbox, Filter(sender="carol")) == ["three"]
    assert bodies(inbox, Filter(sender="c" * 64)) == ["three"]
    assert bodies(inbox, Filter(mesh_id="mesh_1")) == ["two", "one"]
    assert bodies(inbox, Filter(since_ms=NOW + 10)) == ["two"]
    assert bodies(inbox, Filter(before_seq=3)) == ["two", "one"]
    assert [each.body for each in page(inbox, Filter(), 1)] == ["three"]


def test_what_was_seen_is_no_longer_unread(inbox: apsw.Connection) -> None:
    arrive(inbox, push(1, "1"), row_id="in_1")
    arrive(inbox, push(2, "2"), row_id="in_2")
    assert commit(inbox, lambda db: mark_seen(db, ["in_1", "in_9"], now_ms=NOW + 1)) == 1
    assert commit(inbox, lambda db: mark_seen(db, ["in_1"], now_ms=NOW + 2)) == 0
    assert [each.id for each in page(inbox, Filter(unread_only=True), 10)] == ["in_2"]
    assert message(inbox, "in_1").seen_at == NOW + 1


def test_search_takes_syntax_and_what_is_none(inbox: apsw.Connection) -> None:
    arrive(inbox, push(1, "1", "the build is done"))
    arrive(inbox, push(2, "2", "c++ hub-lock"))
    for query, found in (("build", 1), ("buil*", 1), ("hub-lock", 1), ('"', 0), ("", 0), ("nothing", 0)):
        assert len(search(inbox, query, Filter(), 10)) == found, query
    assert search(inbox, "build", Filter(mesh_id="mesh_2"), 10) == []


def test_what_is_old_or_thrown_away_is_forgotten(inbox: apsw.Connection) -> None:
    for number in range(4):
        arrive(inbox, push(number, str(number)), row_id=f"in_{number}", now_ms=NOW + number)
    commit(inbox, lambda db: remove(db, "in_3"))
    with pytest.raises(NotFound):
        commit(inbox, lambda db: remove(db, "in_3"))
    assert commit(inbox, lambda db: prune_inbox(db, before_ms=NOW + 1)) == 1
    assert [each.id for each in page(inbox, Filter(), 10)] == ["in_2", "in_1"]
    assert commit(inbox, lambda db: flush(db, mesh_id="mesh_2", before_ms=None)).number == 0
    assert commit(inbox, lambda db: flush(db, mesh_id="mesh_1", before_ms=NOW + 2)).number == 1
    assert commit(inbox, lambda db: flush(db, mesh_id=None, before_ms=None)).number == 1
    assert search(inbox, "hello", Filter(), 10) == []
    with pytest.raises(NotFound):
        message(inbox, "in_0")


def test_much_is_forgotten_in_parts(inbox: apsw.Connection) -> None:
    for number in range(7):
        arrive(inbox, push(number, str(number)), row_id=f"in_{number}", now_ms=NOW + number)
    assert commit(inbox, lambda db: prune_inbox(db, before_ms=NOW + 3, limit=2)) == 2
    assert commit(inbox, lambda db: prune_inbox(db, before_ms=NOW + 3, limit=2)) == 1
    first = commit(inbox, lambda db: flush(db, mesh_id=None, before_ms=None, limit=3))
    assert first.number == 3
    assert first.after_seq is not None
    after = first.after_seq
    last = commit(inbox, lambda db: flush(db, mesh_id=None, before_ms=None, after_seq=after, limit=3))
    assert last == (1, None)


def test_room_is_made_from_the_oldest_that_were_seen(inbox: apsw.Connection) -> None:
    for number in range(6):
        arrive(inbox, push(number, str(number), "x" * 100), row_id=f"in_{number}")
    assert held_bytes(inbox) == 6 * (102 + ROW_BYTES)
    assert commit(inbox, lambda db: make_room(db, bytes_max=0)) == (0, None), "nobody has seen any of them"
    commit(inbox, lambda db: mark_seen(db, ["in_1", "in_2", "in_4", "in_5"], now_ms=NOW))
    assert commit(inbox, lambda db: make_room(db, bytes_max=6 * (102 + ROW_BYTES))) == (0, None), "there is room"
    first = commit(inbox, lambda db: make_room(db, bytes_max=3 * (102 + ROW_BYTES) - 10, limit=2))
    assert first.number == 2
    assert first.after_seq is not None
    after = first.after_seq
    assert commit(inbox, lambda db: make_room(db, bytes_max=3 * (102 + ROW_BYTES), after_seq=after, limit=2)) == (
        1,
        None,
    )
    assert [each.id for each in page(inbox, Filter(), 10)] == ["in_5", "in_3", "in_0"]
    assert held_bytes(inbox) == 3 * (102 + ROW_BYTES)


def test_m7_many_small_messages_do_not_take_more_of_a_disk_than_the_inbox_may_hold(inbox: apsw.Connection) -> None:
    most = 512 * 1024
    with suppress(InsufficientStorage):
        for number in range(10_000):
            arrive(inbox, push(number, str(number), ""), row_id=f"in_{number}", bytes_max=most)
    (pages,) = inbox.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchall()
    assert int(str(pages[0])) < 2 * most


def test_a_full_inbox_takes_nothing_but_knows_what_it_has(inbox: apsw.Connection) -> None:
    arrive(inbox, push(1, "1", "x" * 100), row_id="in_1", bytes_max=100)
    with pytest.raises(InsufficientStorage):
        arrive(inbox, push(2, "2"), row_id="in_2", bytes_max=100)
    assert arrive(inbox, push(3, "1"), row_id="in_3", bytes_max=100).status == "stored"
    assert len(page(inbox, Filter(), 10)) == 1


def test_what_was_thrown_away_does_not_come_back_when_it_is_delivered_again(inbox: apsw.Connection) -> None:
    for number in range(2):
        arrive(inbox, push(number, str(number)), row_id=f"in_{number}")
    commit(inbox, lambda db: flush(db, mesh_id=None, before_ms=None))
    again = arrive(inbox, push(7, "0"), row_id="in_7")
    assert (again.status, again.event) == ("stored", None)
    assert arrive(inbox, push(8, "0", sender_id="mem_c"), row_id="in_8").event is not None, (
        "another sender's is another"
    )
    late = NOW + REMEMBERED_MS
    assert commit(inbox, lambda db: prune_forgotten(db, before_ms=NOW, now_ms=late)) == 0
    assert arrive(inbox, push(9, "1"), row_id="in_9").event is None
    assert commit(inbox, lambda db: prune_forgotten(db, before_ms=NOW + 2, now_ms=late + 2)) == 2
    assert arrive(inbox, push(9, "1"), row_id="in_9").event is not None, "a year is long enough"


def test_what_fills_a_lost_inbox_again_is_no_news_to_hooks(inbox: apsw.Connection) -> None:
    def event_of(delivery: Push, row_id: str) -> DaemonEvent:
        event = arrive(inbox, delivery, row_id=row_id, now_ms=NOW + 60_000).event
        assert event is not None
        return event

    commit(inbox, lambda db: mark_renewed(db, now_ms=NOW + 50_000, put_aside=None))
    old, new = iso(NOW), iso(NOW + 55_000)
    for number, (attempt, accepted, runs) in enumerate(
        [(2, old, []), (1, old, ["on-message", "on-dm"]), (2, new, ["on-message", "on-dm"])]
    ):
        message_then = push(number, str(number), accepted_at=accepted).message
        event = event_of(Push(number, attempt, False, message_then), f"in_{number}")
        assert hooks_for(event, message(inbox, f"in_{number}")) == runs


def test_the_log_is_resumed_from_a_cursor_that_never_repeats(inbox: apsw.Connection) -> None:
    assert (newest_event(inbox), oldest_event(inbox)) == (0, None)
    arrive(inbox, push(1, "1"), row_id="in_1")
    commit(inbox, lambda db: append_event(db, "broker_status", {"status": "open"}, now_ms=NOW + 9, mesh_id="mesh_1"))
    first, second = events_after(inbox, 0, 10)
    assert (first.kind, second.kind, second.data) == ("message", "broker_status", {"status": "open"})
    assert events_after(inbox, first.event_id, 10) == [second]
    assert first.inbox_seq is not None
    assert messages_at(inbox, [first.inbox_seq])[first.inbox_seq].body == "hello"
    assert commit(inbox, lambda db: prune_events(db, before_ms=NOW + 10)) == 2
    assert newest_event(inbox) == second.event_id
    later = commit(inbox, lambda db: append_event(db, "system", {}, now_ms=NOW))
    assert later.event_id == second.event_id + 1
    assert oldest_event(inbox) == later.event_id


def test_a_mention_is_marked(inbox: apsw.Connection) -> None:
    delivery = push(1, kind="topic", ref="alerts")
    arrive(inbox, Push(1, 1, True, delivery.message))
    assert [each.mentioned for each in page(inbox, Filter(), 10)] == [True]
    assert BOB not in [each.sender_pubkey for each in page(inbox, Filter(), 10)]
