"""Several brokers on one PostgreSQL: equals that hear of each other and never do the same thing twice."""

import queue
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest

from parley.broker.calls import AcceptMessage
from parley.broker.done import Done
from parley.broker.methods import CallMethod
from parley.broker.postgresql_store import PostgresqlStore
from parley.broker.rules.accept import AcceptOutcome
from parley.broker.rules.deliver import Claim, claim
from parley.broker.rules.founding import FoundFirst, FoundMesh
from parley.broker.rules.members import lock_mesh
from parley.broker.signals import NAMES_MAX, Signal, signals
from parley.broker.tx import Tx
from parley.core.clock import ManualClock
from parley.core.errors import SchemaTooNew, ServiceUnavailable
from parley.sqlite import Outcome
from parley.wire.broker import Accepted, RefusedSend
from parley.wire.invites import decode_invite
from tests.conformance.broker.circle import Circle, accept, claim_for, key, make_send
from tests.postgres import Server

Open = Callable[[], PostgresqlStore]


@pytest.fixture
def open_store(postgresql: Server, clock: ManualClock) -> Iterator[Open]:
    url = postgresql.new_url()
    with ExitStack() as held:
        yield lambda: held.enter_context(closing(PostgresqlStore(url, clock)))


def statuses(outcomes: list[AcceptOutcome | None]) -> list[int]:
    found = (each.answer for each in outcomes if each is not None)
    return sorted(each.status if isinstance(each, Accepted) else each.problem.status for each in found)


def test_brokers_that_start_at_once_make_the_tables_once_and_are_one_broker(open_store: Open) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: open_store(), range(4)))
    assert len({store.broker_id for store in stores}) == 1
    assert len({store.instance for store in stores}) == 4
    assert stores[0].epoch == 1


def test_brokers_that_start_at_once_found_one_mesh_and_every_invite_to_it_is_good(open_store: Open) -> None:
    stores = [open_store() for _ in range(4)]
    found = FoundFirst(FoundMesh("home", "Home", "ws://127.0.0.1", stores[0].policy, b"s" * 32))
    with ThreadPoolExecutor(4) as pool:
        founded = list(pool.map(lambda store: store.call(found), stores))
    invites = [decode_invite(each.invite)[0] for each in founded if each is not None]
    assert len(invites) == 4
    assert len({invite.mesh_id for invite in invites}) == 1
    assert len({invite.invite_id for invite in invites}) == 4
    (count,) = stores[0].call(lambda tx: tx.all("SELECT count(*) FROM invite"))
    assert count == (4,)


def test_the_same_message_at_two_brokers_at_once_is_accepted_once(open_store: Open, clock: ManualClock) -> None:
    first, second = open_store(), open_store()
    circle = Circle(first, clock)
    for number in range(10):
        message = circle.incoming(circle.ann, make_send(f"c{number}"))
        with ThreadPoolExecutor(2) as pool:
            tried = list(pool.map(lambda store, each=message: accept(store, [each])[0].value, (first, second)))
        assert statuses(tried) == [200, 201]
    assert circle.counts()["message"] == 10


def test_batches_for_the_same_meshes_in_another_order_do_not_wait_for_each_other(
    open_store: Open, clock: ManualClock
) -> None:
    stores = [open_store(), open_store()]
    circle = Circle(stores[0], clock)
    circle.join("fay", mesh_id=circle.other_mesh_id)

    def messages(run: int, side: int) -> list[int]:
        both = [
            circle.incoming(circle.ann, make_send(f"r{run}s{side}")),
            circle.incoming(circle.eve, make_send(f"r{run}s{side}", ref=key("fay"))),
        ]
        outcomes = accept(stores[side], both if side else both[::-1])
        assert [each.error for each in outcomes] == [None, None]
        return statuses([each.value for each in outcomes])

    for run in range(10):
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(lambda side, each=run: messages(each, side), (0, 1))) == [[201, 201], [201, 201]]


def test_requests_for_two_meshes_take_their_locks_in_one_order(open_store: Open, clock: ManualClock) -> None:
    """Somebody has the first lock; whoever wants both waits for it with empty hands."""
    holder, asker, other = open_store(), open_store(), open_store()
    circle = Circle(holder, clock)
    first, last = sorted([circle.ann, circle.eve], key=lambda member: member.mesh_id)
    rules = [CallMethod(each.mesh_id, each.member_id, "subscribe", {"topic": "deploy"}) for each in (last, first)]

    def wait_until_asked(tx: Tx) -> Future[list[Outcome[Any]]]:
        lock_mesh(tx, first.mesh_id)
        asked = pool.submit(asker.commit, rules)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        deadline = time.monotonic() + 60
        while tx.all(waiting) == [(0,)] and time.monotonic() < deadline:
            pass
        free = "SELECT count(*) FROM (SELECT 1 FROM mesh WHERE mesh_id = ?{lock}) AS x"
        assert other.call(lambda their: their.all(free.format(lock=their.skip_locked), last.mesh_id)) == [(1,)]
        return asked

    with ThreadPoolExecutor(1) as pool:
        outcomes = holder.call(wait_until_asked).result(timeout=60)
    assert [each.error for each in outcomes] == [None, None]


def test_who_only_reads_does_not_wait_for_those_who_send(open_store: Open, clock: ManualClock) -> None:
    sender, reader = open_store(), open_store()
    circle = Circle(sender, clock)
    asked = CallMethod(circle.mesh_id, circle.ann.member_id, "members", {})

    def read_meanwhile(tx: Tx) -> Done:
        lock_mesh(tx, circle.mesh_id)
        return pool.submit(reader.call, asked).result(timeout=60)

    with ThreadPoolExecutor(1) as pool:
        assert len(sender.call(read_meanwhile).result["members"]) == 3


def test_two_brokers_never_lease_the_same_delivery(open_store: Open, clock: ManualClock) -> None:
    stores = [open_store(), open_store()]
    circle = Circle(stores[0], clock)
    for number in range(40):
        circle.accepted(circle.ann, make_send(f"c{number}"))

    def take(side: int) -> list[int]:
        found: list[int] = []
        while pushes := claim_for(stores[side], circle.bob.member_id, f"conn{side}", 3):
            found += [push.delivery_id for push in pushes]
        return found

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(take, (0, 1))
    rest = take(0)
    assert sorted(first + second + rest) == sorted({*first, *second, *rest})
    assert len(first + second + rest) == 40


def test_what_one_broker_commits_another_hears_of_and_not_itself(open_store: Open, clock: ManualClock) -> None:
    first, second = open_store(), open_store()
    circle = Circle(first, clock)
    heard: queue.Queue[tuple[str, Signal]] = queue.Queue()
    for store, name in ((first, "first"), (second, "second")):
        store.listen(lambda signal, name=name: heard.put((name, signal)))
    # A listener hears from when it listens, so the first signals may come before it does.
    for number in range(1000):
        circle.accepted(circle.ann, make_send(f"c{number}"))
        try:
            name, signal = heard.get(timeout=0.1)
        except queue.Empty:
            continue
        assert (name, signal.origin, signal.wake) == ("second", first.instance, (circle.bob.member_id,))
        break
    else:
        pytest.fail("the second broker heard nothing")
    assert isinstance(circle.offer(circle.ann, make_send("lost", ref=key("nobody"))).answer, RefusedSend)


def test_a_signal_never_grows_beyond_what_a_notice_may_hold() -> None:
    woken = tuple(f"mem_{number:060d}" for number in range(250))
    outcome = AcceptOutcome(Accepted("c", 201, "bm", 1, duplicate=False), woken)
    made = signals("me", [outcome, outcome, None])
    assert [len(each.wake) for each in made] == [NAMES_MAX, NAMES_MAX, 50]


def test_a_database_that_is_gone_is_no_fault_of_the_callers(open_store: Open, clock: ManualClock) -> None:
    store = open_store()
    circle = Circle(store, clock)
    store.close()
    outcomes = accept(store, [circle.incoming(circle.ann, make_send("a")), circle.incoming(circle.ann, make_send("b"))])
    assert [type(each.error) for each in outcomes] == [ServiceUnavailable] * 2
    with pytest.raises(ServiceUnavailable):
        store.call(lambda tx: claim(tx, [Claim(circle.bob.member_id, "conn", 1)], 1000))


def test_a_statement_that_fails_takes_only_its_own_rule_with_it(open_store: Open, clock: ManualClock) -> None:
    store = open_store()
    circle = Circle(store, clock)
    good, bad = store.commit([lambda tx: tx.one("SELECT 1"), lambda tx: tx.one("SELECT nonsense")])
    assert good.value == (1,)
    assert bad.error is not None
    assert circle.accepted(circle.ann, make_send()).status == 201


def test_a_fault_of_a_rule_is_its_own_whoever_shares_its_transaction(open_store: Open, clock: ManualClock) -> None:
    store = open_store()
    circle = Circle(store, clock)
    message = AcceptMessage(circle.incoming(circle.ann, make_send()), store.policy)
    accepted, failed = store.commit([message, lambda tx: 1 // 0])
    assert isinstance(failed.error, ZeroDivisionError)
    assert statuses([accepted.value]) == [201]
    broken = message.message._replace(send=None)  # type: ignore[arg-type]
    good = AcceptMessage(circle.incoming(circle.ann, make_send("c2")), store.policy)
    first, second = store.commit([AcceptMessage(broken, store.policy), good])
    assert isinstance(first.error, AttributeError)
    assert statuses([second.value]) == [201]


def test_a_database_of_a_newer_broker_is_refused(postgresql: Server, clock: ManualClock) -> None:
    url = postgresql.new_url()
    with closing(PostgresqlStore(url, clock)) as store:
        store.call(lambda tx: tx.run("UPDATE meta SET value = '99' WHERE key = 'schema_version'"))
    with pytest.raises(SchemaTooNew):
        PostgresqlStore(url, clock)


def test_an_address_where_nobody_answers_is_unavailable(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.broker.postgresql_store._WAIT_SECONDS", 0.2)
    with pytest.raises(ServiceUnavailable):
        PostgresqlStore("postgresql://parley@/none?host=/nonexistent", clock)
