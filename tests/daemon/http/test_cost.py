"""What a look at the daemon costs, counted in steps of SQLite's machine and not in time, which says nothing here."""

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import httpx

from parley.daemon.databases import open_inbox, open_outbox
from parley.daemon.home import prepare_home
from parley.wire.daemon_home import DaemonHome
from tests.daemon.served_daemon import MakeServed, ServedDaemon

FEW, MANY = 1_000, 200_000
_NUMBERS = "WITH RECURSIVE numbered(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbered WHERE n < ?)"
_OUTBOX = (
    f"{_NUMBERS} INSERT INTO outbox (id, client_message_id, request_fingerprint, mesh_id, to_spec, destination_kind,"
    " destination_ref, priority, payload, sender_identity, sealed, wire_fingerprint, enqueued_at, next_attempt_at,"
    " status) SELECT 'out_' || n, 'm' || n, zeroblob(32), 'mesh_' || (n % 3), 'bob', 'dm', 'b', 'next', x'00', 'a',"
    " x'00', zeroblob(32), n, n, iif(n % 4, 'pending', 'dead') FROM numbered"
)
_INBOX = (
    f"{_NUMBERS} INSERT INTO inbox (id, mesh_id, client_message_id, broker_message_id, history_id, sender_id,"
    " sender_pubkey, sender_name, recipient_id, destination_kind, destination_ref, priority, mentioned, body, sealed,"
    " accepted_at, received_at) SELECT 'in_' || n, 'mesh_1', 'm' || n, 'bm' || n, n, 's', 's', 's', 'r', 'dm', 'r',"
    " 'next', 0, iif(n % 10, 'x', NULL), iif(n % 10, NULL, x'00'), '2026-01-01T00:00:00.000Z', 9000000000000"
    " FROM numbered"
)


def fill(home: Path, rows: int) -> None:
    """A daemon's folder with so many rows that wait, are dead, are unseen, or cannot be opened."""
    places = DaemonHome(home)
    prepare_home(places)
    with closing(open_outbox(places.outbox)) as outbox, outbox:
        outbox.execute(_OUTBOX, (rows,))
    with closing(open_inbox(places.inbox).connection) as inbox, inbox:
        inbox.execute(_INBOX, (rows,))


class Steps:
    """Counts what the daemon's own readers do."""

    def __init__(self, served: ServedDaemon) -> None:
        self.taken = 0
        for read in (served.daemon.store.read_outbox, served.daemon.store.read_inbox):
            read(lambda db: db.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count))

    def _count(self, event: dict[str, Any]) -> None:
        self.taken += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]


async def looked_at(served: ServedDaemon, path: str) -> tuple[int, httpx.Response]:
    """How many steps the second of two looks takes: the first one may have to read the schema."""
    await served.unix.get(path)
    steps = Steps(served)
    answer = await served.unix.get(path)
    assert answer.status_code == 200
    return steps.taken, answer


async def test_m12_health_and_metrics_cost_the_same_however_much_a_daemon_holds(
    tmp_path: Path, make_served: MakeServed
) -> None:
    taken: dict[int, list[int]] = {}
    for rows in (FEW, MANY):
        fill(tmp_path / f"with{rows}", rows)
        served = await make_served(name=f"with{rows}", empty=True, outbox={"rows_max": 1_000_000})
        health_steps, health = await looked_at(served, "/v1/health")
        metrics_steps, metrics = await looked_at(served, "/v1/metrics")
        taken[rows] = [health_steps, metrics_steps]
        told = health.json()
        pending = rows - rows // 4
        assert (told["queue_depth"], told["inflight"], told["dead"]) == (pending, 0, rows // 4)
        assert (told["unseen"], told["undecryptable"]) == (rows, rows // 10)
        assert f"parley_daemon_outbox_pending {float(pending)}\n" in metrics.text
        assert f"parley_daemon_inbox_unseen {float(rows)}\n" in metrics.text
        await served.close()
    assert taken[FEW] == taken[MANY]
    assert 0 < sum(taken[MANY]) < 2_000
