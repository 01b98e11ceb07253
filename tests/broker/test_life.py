"""The broker as an operator runs it: settings from a file, in the background, looked at, stopped, checked, restored."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from parley.app.broker import FLAGS, UpOptions, broker_store
from parley.broker.backup import back_up, restore
from parley.broker.instances import FOLDER, instances
from parley.broker.options import broker_options
from parley.broker.policy import DEFAULT_POLICY
from parley.broker.postgresql_store import PostgresqlStore
from parley.broker.sqlite_store import open_sqlite_store
from parley.core.broker_errors import BrokerRunning
from parley.core.broker_settings import BrokerSettings
from parley.core.clock import ManualClock, SystemClock
from parley.core.errors import ConfigInvalid
from parley.core.flags import given_by
from parley.wire.broker import Accepted, Push
from tests.broker.process import broker, circle, connected
from tests.conformance.broker.circle import Circle, make_send
from tests.postgres import Server
from tests.workspace.databases import dump

Parley = Callable[..., tuple[int, dict[str, Any]]]
SECONDS = 90


@pytest.fixture
def parley(tmp_path: Path) -> Iterator[Parley]:
    environment = {**os.environ, "PARLEY_HOME": str(tmp_path / "home")}

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        argv = [sys.executable, "-P", "-m", "parley", "broker", *words, "--folder", str(tmp_path / "broker"), "--json"]
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=SECONDS, check=False)
        return done.returncode, json.loads(done.stdout or done.stderr)

    yield run
    run("down")


def test_it_runs_in_the_background_and_is_seen_and_stopped(parley: Parley, tmp_path: Path) -> None:
    assert parley("status") == (3, {"status": "not_running", "brokers": []})
    code, up = parley("up", "--detach", "--port", "0")
    assert (code, up["status"], up["owner_invite"] is not None) == (0, "running", True)
    code, found = parley("status")
    (shown,) = found["brokers"]
    assert (code, shown["pid"], shown["port"], shown["ready"]) == (0, up["pid"], up["port"], True)
    code, again = parley("up", "--detach", "--port", "0")
    assert (code, again["code"], again["details"]["pid"]) == (10, "WRITER_LOCK_HELD", up["pid"])
    assert "parley broker down" in again["hint"]
    assert parley("status", "--port", str(up["port"] % 65_535 + 1))[0] == 3
    log = (tmp_path / "broker" / "broker.log").read_text()
    assert '"msg":"started"' in log
    assert str(up["owner_invite"]) not in log
    code, down = parley("down")
    assert (code, down["status"], down["brokers"]) == (
        0,
        "stopped",
        [{"pid": up["pid"], "port": up["port"], "killed": False}],
    )
    assert parley("down") == (0, {"status": "already_stopped", "brokers": []})
    assert list((tmp_path / "broker" / FOLDER).iterdir()) == []


def test_what_a_mesh_may_hold_is_shown_and_changed_while_it_serves(parley: Parley) -> None:
    assert parley("limits")[0] == 1
    assert parley("up", "--detach", "--port", "0")[0] == 0
    code, found = parley("limits", "home", "--members-max", "12", "--bytes-max", "2048")
    (mesh,) = found["meshes"]
    assert (code, mesh["slug"], mesh["members_max"], mesh["bytes_max"]) == (0, "home", 12, 2048)
    assert parley("limits")[1]["meshes"] == [mesh]
    code, refused = parley("limits", "none")
    assert (code, refused["code"]) == (1, "NOT_FOUND")


def test_what_a_killed_broker_left_behind_is_no_broker(tmp_path: Path) -> None:
    with broker(tmp_path / "broker") as process:
        assert [each.pid for each in instances(tmp_path / "broker")] == [process.popen.pid]
        process.kill()
        assert len(list((tmp_path / "broker" / FOLDER).iterdir())) == 1
        assert instances(tmp_path / "broker") == []
    assert list((tmp_path / "broker" / FOLDER).iterdir()) == []


def test_every_setting_stands_in_a_file_and_flags_go_before_it(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(
        "[server]\nport = 5000\ntls_cert = 'cert.pem'\ntls_key = '/etc/key.pem'\nopen_creation = true\n"
        "[store]\naddress = 'other.db'\n[limits]\nwindow = 7\n[timing]\nlease_ms = 5000\n"
        "[retention]\nmessage_days = 20\n[check]\nevery_hours = 0\n"
        "[mesh]\nmembers_max = 3\nconnection_policy = 'prefer_oldest'\n"
    )
    found = broker_options(UpOptions({"server.port": 6000}, tmp_path).settings(), tmp_path)
    server, check = found.settings.server, found.settings.check
    assert (server.port, server.open_creation, check.every_hours) == (6000, True, 0)
    assert (found.tls_cert, found.tls_key) == (tmp_path / "cert.pem", Path("/etc/key.pem"))
    assert (found.policy.window, found.policy.lease_ms, found.policy.members_max) == (7, 5000, 3)
    assert (found.policy.delivery_days, found.policy.connection_policy) == (20, "prefer_oldest")
    assert broker_store(None, tmp_path) == found.store == str(tmp_path / "other.db")
    assert broker_store("postgresql://x/y", tmp_path) == "postgresql://x/y"
    config.write_text("[server]\nspeed = 3\n[timing]\nlease_ms = 5\n[nothing]\n")
    with pytest.raises(ConfigInvalid) as caught:
        UpOptions(folder=tmp_path).settings()
    assert len(caught.value.details["problems"]) == 3  # type: ignore[arg-type]


def test_without_a_file_the_policy_is_the_default(tmp_path: Path) -> None:
    assert broker_options(BrokerSettings(), tmp_path).policy == DEFAULT_POLICY
    named = {flag.parameter: None for flag in FLAGS}
    given = given_by(FLAGS, named | {"store": "db", "port": 0, "tls_cert": "c", "insecure": True})
    here = Path.cwd()
    assert UpOptions(given, tmp_path).arguments() == [
        *("--folder", str(tmp_path)),
        *("--port", "0"),
        *("--tls-cert", str(here / "c")),
        "--insecure",
        *("--store", str(here / "db")),
    ]


def test_a_database_that_is_no_store_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="not mysql"):
        broker_store("mysql://host/db", tmp_path)
    with pytest.raises(ConfigInvalid, match="not mysql"):
        broker_options(UpOptions({"store.address": "mysql://host/db"}, tmp_path).settings(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_running_broker_finds_orphans_and_says_so_in_its_metrics(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    clock = ManualClock(SystemClock().now_ms())
    with closing(open_sqlite_store(folder / "broker.db", clock)) as store:
        circle = Circle(store, clock)
        circle.accepted(circle.ann, make_send("c1"))
    (folder / "broker.toml").write_text("[check]\nevery_hours = 0.0002\n")
    with broker(folder) as process:
        until(process.http, "parley_broker_checks_total", 'outcome="sound"')
        assert "parley_broker_orphans 0.0" in metrics(process.http)
        with closing(apsw.Connection(str(folder / "broker.db"))) as hand:
            hand.set_busy_timeout(30_000)
            hand.execute("PRAGMA foreign_keys=OFF")
            hand.execute("DELETE FROM message")
        until(process.http, "parley_broker_checks_total", 'outcome="unsound"')
        assert "parley_broker_orphans 2.0" in metrics(process.http)
    assert '"orphans_found"' in folder.with_name("broker.log").read_text()


async def test_a_stop_answers_what_it_took_gives_back_what_was_leased_and_sends_daemons_away(tmp_path: Path) -> None:
    with broker(tmp_path / "broker") as process:
        ann, bob = await circle(process, "ann", "bob")
        async with connected(bob, process.url) as recipient, connected(ann, process.url) as sender:
            for number in range(40):
                await sender.say(make_send(f"c{number}", ref=bob.pubkey))
            await recipient.hear(Push)  # it is leased, and not acknowledged
            process.popen.send_signal(signal.SIGTERM)
            assert await sender.closed_with() == await recipient.closed_with() == 1001
        assert process.popen.wait(SECONDS) == 0
        accepted = {each.client_message_id for each in sender.heard if isinstance(each, Accepted)}
    with closing(apsw.Connection(str(tmp_path / "broker" / "broker.db"))) as left:
        kept = {str(row[0]) for row in left.execute("SELECT client_message_id FROM message_history")}
        states = dict(dump(left, "SELECT state, count(*) FROM delivery_queue GROUP BY state"))
        assert dump(left, "SELECT count(*) FROM connection") == [(0,)]
    assert accepted
    assert accepted <= kept
    assert states == {"queued": len(kept)}


def until(http: str, *parts: str) -> None:
    """Looks at the metrics until a line has all of these in it."""
    while True:  # the test's own deadline ends it
        if any(all(part in line for part in parts) for line in metrics(http)):
            return


def metrics(http: str) -> list[str]:
    return httpx.get(f"{http}/metrics", trust_env=False, timeout=SECONDS).text.splitlines()


def test_a_database_that_is_served_is_not_restored(tmp_path: Path, postgresql: Server, clock: ManualClock) -> None:
    url, copy = postgresql.new_url(), tmp_path / "copy.bak"
    with broker(tmp_path / "broker", "--store", url) as process:
        back_up(url, copy, clock)
        with pytest.raises(BrokerRunning):
            restore(copy, url, clock, force=True)
        assert httpx.get(f"{process.http}/v1/ready", trust_env=False, timeout=SECONDS).status_code == 200
        assert process.stop() == 0
    assert restore(copy, url, clock, force=True) == 2
    elsewhere = postgresql.new_url()
    with broker(tmp_path / "other", "--store", elsewhere):
        assert restore(copy, url, clock, force=True) == 3


def test_a_broker_that_missed_a_restore_ends_instead_of_serving_another_life(
    postgresql: Server, tmp_path: Path, clock: ManualClock
) -> None:
    url, copy = postgresql.new_url(), tmp_path / "copy.bak"
    with broker(tmp_path / "broker", "--store", url) as process:
        back_up(url, copy, clock)
        with closing(PostgresqlStore(url, clock)) as store:
            # Its connection is cut, as by a network that fails; before it is back, everything is replaced.
            store.call(lambda tx: tx.run("UPDATE meta SET value = '9' WHERE key = 'epoch'"))
            store.call(
                lambda tx: tx.all(
                    "SELECT pg_terminate_backend(l.pid) FROM pg_locks AS l WHERE l.locktype = 'advisory'"
                    " AND l.mode = 'ShareLock' AND l.objid::bigint = (hashtext(current_schema())::bigint & 4294967295)"
                )
            )
        assert process.popen.wait(SECONDS) == 1
    assert '"store_was_restored"' in (tmp_path / "broker.log").read_text()
