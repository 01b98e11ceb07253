"""The commands that read brokers, as a user calls them, without starting Spark."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from parley.core.clock import ManualClock
from parley.core.pipeline_errors import LakeInvalid, LakeNotFound
from parley.pipeline.brokers.gold import count_deliveries
from parley.pipeline.brokers.rows import read_rows
from parley.pipeline.brokers.silver import build_mesh_silver
from parley.pipeline.lake import Lake
from parley.pipeline.lake.catalogue.mesh import BROKER_MESSAGES, DELIVERY_TIMES
from tests.cli.conftest import Parley, parley
from tests.conformance.broker.circle import make_send
from tests.pipeline.brokers.worlds import World, opened_world
from tests.pipeline.logs import make_hub
from tests.postgres import Server

__all__ = ["parley"]
DEADLINE_SECONDS = 60.0


def test_a_broker_is_taken_into_a_lake_that_is_named(parley: Parley, world: World, tmp_path: Path) -> None:
    world.talk(6)
    place = ("--broker", world.place, "--lake", tmp_path / "lake")
    done = parley("pipeline", "ingest", *place, "--json")
    assert done.code == 0
    taken = done.json["brokers"]
    assert (taken["messages"], taken["deliveries"], taken["problems"]) == (7, world.counts()["delivery_queue"], [])
    assert (done.json["events"], done.json["cursors"]) == (0, {})
    assert "starting Spark" not in done.stderr
    world.accepted(world.ann, make_send("one more"))
    again = parley("pipeline", "ingest", *place)
    said = f"1 new messages of brokers, and 1 deliveries that changed, are in {tmp_path / 'lake'}.\n"
    assert (again.code, again.stdout) == (0, said)


def test_hubs_and_brokers_share_a_lake(parley: Parley, world: World, tmp_path: Path) -> None:
    world.talk(3)
    make_hub(tmp_path / "hub", 5)
    done = parley("pipeline", "ingest", "-w", tmp_path / "hub", "--broker", world.place, "--json").json
    assert (done["events"], done["brokers"]["messages"]) == (5, 4)
    assert done["lake"] == str(tmp_path / "hub" / ".parley" / "lake")


def test_what_is_wrong_with_a_broker_is_said_with_a_code(parley: Parley, tmp_path: Path) -> None:
    for arguments, code in (
        (["--broker", tmp_path / "none.db", "--lake", tmp_path / "lake"], "BROKER_INVALID"),
        (["--broker", "postgresql://a:geheim@127.0.0.1:1/x", "--lake", tmp_path / "lake"], "SERVICE_UNAVAILABLE"),
        (["--broker", tmp_path / "none.db"], "BROKER_INVALID"),
    ):
        refused = parley("pipeline", "ingest", *arguments, "--json")
        assert (refused.json["code"], bool(refused.json["hint"])) == (code, True)
        assert "geheim" not in refused.stdout + refused.stderr


def test_brokers_alone_need_a_lake_of_their_own(parley: Parley, world: World) -> None:
    refused = parley("pipeline", "ingest", "--broker", world.place, "--json")
    assert (refused.code, refused.json["code"]) == (1, "INVALID_INPUT")


def test_a_password_is_in_no_file_of_the_lake(
    parley: Parley, postgresql: Server, clock: ManualClock, tmp_path: Path
) -> None:
    url = postgresql.new_url()
    with opened_world(url, clock) as world:
        world.talk(3)
    place = url.replace("parley@", "parley:geheim@")
    assert place != url
    done = parley("pipeline", "ingest", "--broker", place, "--lake", tmp_path / "lake", "--json")
    assert (done.code, done.json["brokers"]["messages"]) == (0, 4)
    assert "geheim" not in done.stdout + done.stderr
    assert not any(b"geheim" in path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file())
    rows = read_rows(Lake.open(tmp_path / "lake"), BROKER_MESSAGES).to_pylist()
    assert len(rows) == 4
    assert "geheim" not in repr(rows)


def test_watching_takes_in_what_comes_until_it_is_stopped(clock: ManualClock, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    command = [sys.executable, "-m", "parley", "pipeline", "ingest", "--watch", "--every", "0.1", "--json"]
    with opened_world(str(tmp_path / "broker.db"), clock) as world:
        world.talk(3)
        watching = subprocess.Popen(
            [*command, "--broker", world.place, "--lake", str(lake)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            until_taken(lake, 4)
            world.talk(2, "later")
            until_taken(lake, 7)
            watching.send_signal(signal.SIGTERM)
            said, _ = watching.communicate(timeout=DEADLINE_SECONDS)
        finally:
            watching.kill()
            watching.communicate()
    assert watching.returncode == 0
    assert json.loads(said)["brokers"]["messages"] == 7


def until_taken(lake: Path, count: int) -> None:
    """Waits until bronze has so many messages."""
    deadline, nothing = time.monotonic() + DEADLINE_SECONDS, threading.Event()
    while time.monotonic() < deadline:
        with contextlib.suppress(LakeNotFound, LakeInvalid):
            if read_rows(Lake.open(lake), BROKER_MESSAGES).num_rows >= count:
                return
        nothing.wait(0.1)
    raise AssertionError(f"there are no {count} messages after {DEADLINE_SECONDS} seconds")


def test_deliveries_are_counted_by_mesh_and_priority(parley: Parley, world: World, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for number, wait in enumerate((1, 2, 9)):
        world.accepted(world.ann, make_send(f"quick{number}", priority="now"))
        world.clock.advance(wait)
        world.acknowledge(world.bob, *world.claim(world.bob))
    waiting_since = world.clock.now_ms()
    world.accepted(world.ann, make_send("waiting", "queue", "*", priority="low"))
    world.claim(world.cid)
    world.clock.advance(31)
    world.claim(world.cid)
    assert parley("pipeline", "ingest", "--broker", world.place, "--lake", lake).code == 0
    build_mesh_silver(Lake.open(lake))
    assert count_deliveries(Lake.open(lake)) == 2
    assert count_deliveries(Lake.open(lake)) is None
    low, now = sorted(read_rows(Lake.open(lake), DELIVERY_TIMES).to_pylist(), key=lambda row: row["priority"])
    assert (now["mesh"], now["priority"], low["priority"]) == ("red", "now", "low")
    assert (now["deliveries"], now["delivered"], now["open"], now["repeated"]) == (3, 3, 0, 0)
    assert (now["measured"], now["p50_ms"], now["max_ms"], now["oldest_open_at"]) == (3, 2000.0, 9000, None)
    assert now["p90_ms"] == pytest.approx(7600)
    assert (low["deliveries"], low["delivered"], low["open"], low["repeated"]) == (2, 0, 2, 1)
    assert (low["measured"], low["p50_ms"], low["max_ms"]) == (0, None, None)
    assert low["oldest_open_at"].timestamp() * 1000 == waiting_since
