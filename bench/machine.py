"""The machine a run was made on, as far as it explains the figures."""

import os
import platform
import statistics
import time
from io import FileIO
from pathlib import Path
from typing import Any

import apsw

_SYNCS = 200
_LOOP = 1_000_000
_BLOCK = b"\0" * 4096


def describe(folder: Path) -> dict[str, Any]:
    """Cores, load, versions, and what one durable append costs in the folder that the servers write to."""
    return {
        "cores": os.cpu_count(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "kernel": platform.release(),
        "sqlite": apsw.sqlite_lib_version(),
        "file_system": _file_system(folder),
        **_sync_times(folder / "sync-probe"),
        "python_loop_cpu_ms_before": python_loop_cpu_ms(),
    }


def python_loop_cpu_ms() -> float:
    """CPU time of a fixed piece of work: what a busy neighbour on the same core costs every figure in this run."""
    start = time.process_time()
    sum(number * number for number in range(_LOOP))
    return round((time.process_time() - start) * 1e3, 1)


def _sync_times(path: Path) -> dict[str, float]:
    """The floor under every durable write here: growing a file costs the file system a journal write more."""
    with path.open("wb", buffering=0) as file:
        grow = statistics.median(_synced_write(file) for _ in range(_SYNCS))
        file.seek(0)
        rewrite = statistics.median(_synced_write(file) for _ in range(_SYNCS))
    path.unlink()
    return {"append_synced_p50_ms": round(grow * 1e3, 3), "rewrite_synced_p50_ms": round(rewrite * 1e3, 3)}


def _synced_write(file: FileIO) -> float:
    start = time.perf_counter()
    file.write(_BLOCK)
    os.fdatasync(file.fileno())
    return time.perf_counter() - start


def _file_system(folder: Path) -> str:
    """The type of the file system that holds the folder: the longest mount point above it."""
    place, found = folder.resolve(), ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split(" ")
        if place.is_relative_to(point) and len(point) > len(found[0]):
            found = (point, kind)
    return found[1]
