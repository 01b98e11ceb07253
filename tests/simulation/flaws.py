"""Bugs to plant: each breaks one rule of the product in the way in which it has been broken elsewhere.

A flaw is a function that patches a world's rules. A simulator that does not catch every one of them, and for the reason
that is its own, proves nothing by catching none in the product.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import apsw
import msgspec
import pytest

from parley.broker import calls, session
from parley.broker.rules import accept as accepting
from parley.broker.rules import deliver, recipients, retention
from parley.broker.rules.accept import Incoming
from parley.broker.rules.deliver import Acknowledgement
from parley.broker.tx import Row, Rule, Tx
from parley.daemon.drain import Drain
from parley.daemon.effects import Effect
from parley.daemon.inbox import receive as receiving
from parley.daemon.instant import Instant
from parley.daemon.outbox import sending
from parley.daemon.outbox.accept import Destination, Message
from parley.daemon.outbox.requeue import requeue
from parley.daemon.sealer import open_sealed
from parley.sqlite import Outcome, connect
from parley.wire.broker import DeliveryAcked, Problem, RefusedSend
from tests.simulation import world
from tests.simulation.broker_node import BrokerNode, BrokerRules
from tests.simulation.daemon_node import Rules

Flaw = Callable[[pytest.MonkeyPatch], None]


def in_flight_rows_are_not_recovered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rules, "recover", staticmethod(lambda db, now_ms: 0))


def the_dedupe_is_looked_up_outside_the_transaction(patch: pytest.MonkeyPatch) -> None:
    """Two copies of a message that wait together are both new."""
    look_up, stores = accepting._known, list[Any]()
    known: dict[int, tuple[Incoming, Row | None]] = {}
    build, submit = accepting.incoming, BrokerNode.submit

    def incoming(*args: Any) -> Incoming:
        message = build(*args)
        (outcome,) = stores[-1].commit([lambda tx: look_up(tx, [message])])
        known[id(message)] = (message, outcome.value[0])
        return message

    def remember_store(node: BrokerNode, rule: Rule[Any], done: Callable[[Outcome[Any]], Any]) -> None:
        stores.append(node.store)
        submit(node, rule, done)

    patch.setattr(BrokerNode, "submit", remember_store)
    patch.setattr(session, "incoming", incoming)
    patch.setattr(accepting, "_known", lambda tx, messages: [known[id(each)][1] for each in messages])
    patch.setattr(accepting, "_DEDUPE", accepting._DEDUPE.replace("INSERT", "INSERT OR IGNORE"))


def the_daemon_acknowledges_before_it_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rules, "acknowledges_before_commit", True)


def the_broker_answers_before_it_commits(patch: pytest.MonkeyPatch) -> None:
    def run(self: BrokerRules, rule: Rule[Any], done: Callable[[Outcome[Any]], None]) -> None:
        def hasty(tx: Tx) -> None:
            done(Outcome(rule(tx)))

        self.node.submit(hasty, lambda _: None)

    patch.setattr(BrokerRules, "run", run)


def the_first_acknowledgement_counts_for_all_recipients(patch: pytest.MonkeyPatch) -> None:
    def acknowledge(tx: Tx, acknowledgements: Sequence[Acknowledgement]) -> list[int]:
        return [sum(count(tx, each) for each in acked.deliveries) for acked in acknowledgements]

    def count(tx: Tx, each: DeliveryAcked) -> int:
        return tx.run(
            "UPDATE delivery_queue SET state = 'delivered', status = ?, settled_ms = ?, leased_by = NULL,"
            " lease_until_ms = NULL WHERE broker_message_id ="
            " (SELECT broker_message_id FROM delivery_queue WHERE delivery_id = ?)",
            *(each.status, tx.now_ms, each.delivery_id),
        )

    patch.setattr(calls, "acknowledge", acknowledge)


def the_sender_is_left_out_of_the_inboxs_key(patch: pytest.MonkeyPatch) -> None:
    assert "sender_id = ?2" in receiving._STATUS
    patch.setattr(receiving, "_STATUS", receiving._STATUS.replace("sender_id = ?2", "?2 <> ''"))


def the_sender_is_left_out_of_the_brokers_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(accepting, "_KNOWN", accepting._KNOWN.replace("sender_id = ?", "? <> ''"))


def a_requeued_message_loses_its_destination(patch: pytest.MonkeyPatch) -> None:
    def lossy(db: apsw.Connection, row_id: str, message: Message, *rest: Any, **named: Any) -> Any:
        everybody = Destination(message.destination.mesh_id, "*", "queue", "*")
        return requeue(db, row_id, msgspec.structs.replace(message, destination=everybody), *rest, **named)

    patch.setattr(Rules, "requeue", staticmethod(lossy))


def one_mesh_stands_in_anothers_way(patch: pytest.MonkeyPatch) -> None:
    """Head of line: what is not the oldest of all rows is not sent."""
    oldest = " AND seq = (SELECT min(seq) FROM outbox WHERE status IN ('pending', 'inflight')) ORDER BY"
    patch.setattr(sending, "_DUE", sending._DUE.replace(" ORDER BY", oldest))


def a_rate_limit_kills_a_message(patch: pytest.MonkeyPatch) -> None:
    judge = Drain.on_refused

    def on_refused(self: Drain, frame: RefusedSend, now: Instant) -> list[Effect]:
        if frame.problem.status == 429:
            frame = msgspec.structs.replace(frame, problem=Problem("RATE_LIMITED", "", 400, transient=False))
        return judge(self, frame, now)

    patch.setattr(Drain, "on_refused", on_refused)


def a_lease_never_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retention, "expire", lambda tx, lease_ms: ())
    patch.setattr(deliver, "_DUE", deliver._DUE.replace("state IN ('queued', 'leased')", "state = 'queued'"))


def a_commit_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(connect._SYNCHRONOUS_LEVEL, "full", 1)


def a_row_waits_for_a_time_that_the_clock_has_left(patch: pytest.MonkeyPatch) -> None:
    future = f" OR next_attempt_at > ?2 + {sending.RETRY_MS_MAX}"
    assert future in sending._DUE
    patch.setattr(sending, "_DUE", sending._DUE.replace(future, ""))


def a_settlement_that_a_full_disk_refused_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rules, "insists", False)


def a_block_is_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recipients, "_takes", lambda row, capability: True)


def who_was_thrown_out_goes_on_sending(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(accepting, "_SENDER", accepting._SENDER.replace("SELECT state", "SELECT 'active'"))
    patch.setattr(session.Session, "on_expelled", lambda self: [])


def a_message_to_a_replaced_key_is_not_opened(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rules, "open_sealed", staticmethod(lambda sealed, of, seeds: open_sealed(sealed, of, seeds[:1])))


def whatever_a_member_sent_is_taken_for_sealed_under_its_newest_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(accepting, "_sealed_by", lambda tx, cases: cases)


def nobody_looks_for_deliveries_without_being_told(patch: pytest.MonkeyPatch) -> None:
    """With several brokers a signal is a courtesy, and may be lost."""
    patch.setattr(world, "POLICY", dataclasses.replace(world.POLICY, poll_ms=10**9))


def a_sweep_takes_what_still_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retention, "DAY_MS", 1_000)


FLAWS: dict[Flaw, str] = {
    in_flight_rows_are_not_recovered: r"never came to rest: .* inflight",
    the_dedupe_is_looked_up_outside_the_transaction: r"is at the broker without its id",
    the_daemon_acknowledges_before_it_commits: r"is delivered to .*, who does not have it",
    the_broker_answers_before_it_commits: r"is done as .*, the broker has None",
    the_first_acknowledgement_counts_for_all_recipients: r"is delivered to .*, who does not have it",
    the_sender_is_left_out_of_the_inboxs_key: r"is delivered to .*, who does not have it",
    the_sender_is_left_out_of_the_brokers_key: r"IDEMPOTENCY_KEY_REUSED.* although it could be delivered",
    a_requeued_message_loses_its_destination: r"would send .* to queue \*, which nobody asked for",
    one_mesh_stands_in_anothers_way: r"never came to rest: .* pending",
    a_rate_limit_kills_a_message: r"RATE_LIMITED.* although it could be delivered",
    a_lease_never_ends: r"never came to rest: .* is leased for",
    a_commit_is_not_synced: r"promised .* and does not have it",
    a_row_waits_for_a_time_that_the_clock_has_left: r"never came to rest: .* pending",
    a_settlement_that_a_full_disk_refused_is_forgotten: r"never came to rest: .* inflight",
    a_block_is_not_looked_at: r"is queued for .* and not for",
    who_was_thrown_out_goes_on_sending: r"who had been thrown out",
    a_message_to_a_replaced_key_is_not_opened: r"changed: None",
    whatever_a_member_sent_is_taken_for_sealed_under_its_newest_key: r"changed: None",
    nobody_looks_for_deliveries_without_being_told: r"never came to rest: .* is queued for",
    a_sweep_takes_what_still_waits: r"is not whole at the broker|is dead",
}
"""Each with what it is found by."""
