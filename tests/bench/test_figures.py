"""Figures are medians that stand beside their targets, and a missed target is named."""

import os
import sys
from pathlib import Path

import pytest

from bench.figures import TARGETS, Target, figure, latency_sample, ratios, verdict
from bench.load.process import NotReady, ServerProcess
from bench.plan import Plan


def test_a_figure_is_the_median_with_its_spread() -> None:
    report = figure("edit", [{"cpu_us": 3.0}, {"cpu_us": 100.0}, {"cpu_us": 5.0}])
    assert report == {"cpu_us": 5.0, "repetitions": 3, "spread": {"cpu_us": [3.0, 100.0]}}


@pytest.mark.parametrize(
    ("target", "measured", "reached"),
    [
        (Target("f", "v", at_most=10), 10, True),
        (Target("f", "v", at_most=10), 10.1, False),
        (Target("f", "v", at_least=10), 10, True),
        (Target("f", "v", at_least=10), 9.9, False),
    ],
)
def test_a_target_is_judged_by_its_bound(target: Target, measured: float, reached: bool) -> None:
    assert target.judge(measured)["reached"] is reached


def test_the_verdict_names_what_was_missed_and_judges_nothing_that_was_not_measured() -> None:
    figures = {
        "insert_16": figure("insert_16", [{"per_second": 9_000.0, "cpu_us": 151.0}]),
        "tail_50": figure("tail_50", [{"cpu_us": 1.0}]),
    }
    assert verdict(figures) == {"judged": 3, "reached": False, "missed": ["insert_16.cpu_us"]}
    assert verdict({})["reached"] is None


def test_every_target_has_exactly_one_bound() -> None:
    assert all((target.at_most is None) != (target.at_least is None) for target in TARGETS)


def test_percentiles_of_latencies_are_in_milliseconds() -> None:
    assert latency_sample([number / 1000 for number in range(1, 101)]) == {"p50_ms": 50.5, "p99_ms": 100.0}


def test_a_sample_is_compared_with_another_of_its_round() -> None:
    assert ratios({"cpu_us": 150.0, "p50_ms": 1.0}, {"cpu_us": 100.0, "p50_ms": 9.0}, ("cpu_us",)) == {
        "cpu_us_ratio": 1.5
    }


def test_a_quick_plan_does_a_tenth_as_often() -> None:
    assert Plan().quick().history == Plan().history // 10
    assert Plan().quick().repeat == Plan().repeat
    assert Plan().quick().lake_parts == Plan().lake_parts


def test_the_cpu_time_of_a_process_is_what_the_kernel_says(tmp_path: Path) -> None:
    code = "import signal, time\nwhile time.process_time() < 0.3: pass\nprint('used', flush=True)\nsignal.pause()"
    with ServerProcess([sys.executable, "-c", code], ready="used", folder=tmp_path) as process:
        ticks = sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        assert process.cpu_seconds() >= 0.3
        assert abs(process.cpu_seconds() - ticks / os.sysconf("SC_CLK_TCK")) < 0.05
        assert process.resident_bytes() > os.sysconf("SC_PAGE_SIZE")
        assert process.open_files() >= 3


def test_what_a_process_has_started_is_found_down_to_the_last(tmp_path: Path) -> None:
    child = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'print(1, flush=True); input()'])"
    code = f"import subprocess; subprocess.Popen([{sys.executable!r}, '-c', {child!r}], stdin=subprocess.PIPE).wait()"
    with ServerProcess([sys.executable, "-c", code], ready="1", folder=tmp_path) as process:
        found = process.descendants()
        assert len(found) == 2
        assert all(each.cpu_seconds() > 0 for each in found)
        assert found[0].descendants()[0].pid == found[1].pid
        assert found[1].descendants() == []


def test_a_server_that_ends_before_it_serves_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="no luck"):
        ServerProcess([sys.executable, "-c", "print('no luck')"], ready="serving", folder=tmp_path)
