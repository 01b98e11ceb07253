"""kill -9 of a run that takes a broker in: what it has committed is there once, and the next run adds the rest."""

import signal
import subprocess
import sys
from pathlib import Path

from parley.core.clock import ManualClock
from parley.pipeline.audit.run import audit
from parley.pipeline.brokers.bronze_deliveries import observe_deliveries
from parley.pipeline.brokers.bronze_messages import take_messages
from parley.pipeline.brokers.rows import read_rows
from parley.pipeline.brokers.silver import build_mesh_silver
from parley.pipeline.brokers.stores import find_brokers
from parley.pipeline.lake import Lake
from parley.pipeline.lake.catalogue.mesh import BROKER_MESSAGES, MESH_DELIVERIES
from tests.pipeline.brokers.dying import BUCKET_SIZE, ROUND_NUMBERS
from tests.pipeline.brokers.worlds import opened_world

ROOT = Path(__file__).parent.parent.parent.parent
DEATHS = (("before", "1"), ("after", "1"), ("before", "2"), ("after", "4"))
"""At which of its commits each run dies; the last one may be that of the deliveries."""


def test_a_run_that_is_killed_leaves_each_message_once_and_the_next_goes_on(
    clock: ManualClock, tmp_path: Path, lake: Lake
) -> None:
    with opened_world(str(tmp_path / "broker.db"), clock) as world:
        world.talk(12)
        (broker,) = find_brokers([world.place])
        seen = 0
        for when, number in DEATHS:
            command = [sys.executable, "-m", "tests.pipeline.brokers.dying", lake.root, world.place, when, number]
            died = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
            assert died.returncode == -signal.SIGKILL, died.stderr
            report = audit(None, [], brokers=[broker], lake=lake, clock=clock)
            assert not report.damaged
            held = read_rows(lake, BROKER_MESSAGES).num_rows
            assert held >= seen
            seen = held
        take_messages(lake, [broker], round_numbers=ROUND_NUMBERS)
        assert read_rows(lake, BROKER_MESSAGES).num_rows == 13
        observe_deliveries(lake, [broker], bucket_size=BUCKET_SIZE)
        build_mesh_silver(lake)
        assert read_rows(lake, MESH_DELIVERIES).num_rows == world.counts()["delivery_queue"]
        assert not audit(None, [], brokers=[broker], lake=lake, clock=clock).damaged
