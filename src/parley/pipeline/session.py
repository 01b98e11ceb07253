"""Opening a Spark session: embedded, on a cluster, or through Spark Connect.

This is the only module of the room that touches a ``SparkContext`` or the JVM; what uses the session sees DataFrames
alone, so it runs the same in all three. Embedded is the default and needs nothing to be started: the JVM is a child of
this process, ends with it however it ends, and its own output goes to a file instead of the terminal.
"""

import ctypes
import importlib
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from parley.core.pipeline_errors import SparkFailed
from parley.pipeline.java import find_java_home
from parley.workspace.trust import parley_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APP_NAME: Final = "parley"
LOCAL_MASTER: Final = "local[*,4]"
"""All cores; a task whose Python worker is killed is tried three times more before its job fails."""
DRIVER_MEMORY: Final = "1792m"
"""The heap, while Spark works. What the driver counts by itself takes as much; ``release_memory`` makes room for it."""
HEAP_KEPT: Final = "-Xms256m -XX:-ShrinkHeapInSteps -XX:MaxHeapFreeRatio=40"
"""What a JVM keeps of its heap when it is asked to collect: what is in use and two thirds more, or so little as it
began with, which else would follow from the machine's memory. The rest goes back to the system."""
SERIAL_CORES_MAX: Final = 4
"""Folding makes short-lived rows by the million. What so few cores make, one thread collects; it costs a tenth less
than a collector that works beside them. The parallel one would too, but never gives memory back."""
BATCH_ROWS: Final = 20_000
"""Rows in an Arrow batch: the cost of handing one over no longer shows, and a batch of events is a few megabytes."""
SHUFFLE_PARTITIONS_PER_CORE: Final = 4
PARTS_MAX: Final = 100_000
"""More rows than any cluster has cores, where these are counted by the parts that rows fall into."""
LOG_CHARS_SHOWN: Final = 2_000
"""How much of the JVM's last words an error repeats."""
DELTA_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

LITERAL_PATHS: Final = {"__globPaths__": "false"}
"""Options of a reader: a path is the name of a file, also where it looks like a pattern."""

_SESSION: Final[dict[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.python.filterPushdown.enabled": "true",
    # A table is read as a list of files: to look each of them up here is quicker than to start a job for it.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.files.openCostInBytes": str(256 * 1024),
}
"""Settings of a session, which may be changed in one that is open."""
_TALKATIVE: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""They print each error's whole stack on stderr, beside raising it."""
_EMBEDDED: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # Where in our code each column came from is asked of the JVM with every call, and told to nobody: errors that reach
    # a user speak of what he did.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.driver.memory": DRIVER_MEMORY,
    # Streams of a few files each: nothing is gained by waiting, and state is small.
    "spark.sql.streaming.stopTimeout": "30s",
}


def open_session(
    *, master: str | None = None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """The session of this process; one that is open already is taken as it is.

    ``remote`` is a Spark Connect address (``sc://host:port``), ``master`` that of a cluster (``spark://host:port``);
    with neither Spark runs embedded. ``settings`` are Spark's own and win over ours. Raises ``SparkFailed``, or
    ``JavaNotFound`` where a JVM has to be started and there is none.
    """
    from pyspark.logger import PySparkLogger

    for name in _TALKATIVE:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        spark = _connect(remote) if remote is not None else _start(master or LOCAL_MASTER, dict(settings or {}))
        for name, value in {**_SESSION, **dict(settings or {})}.items():
            if spark.conf.isModifiable(name):
                spark.conf.set(name, value)
    except spark_errors() as error:
        where = remote or master or "here"
        raise SparkFailed(f"No Spark session could be opened at {where}: {_first_line(error)}") from error
    return spark


def has_session() -> bool:
    """Whether this process has a session open already."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def reads_delta(spark: "SparkSession") -> bool:
    """Whether the session has Delta's own reader: its jars are on the class path, and it was set up with them."""
    return DELTA_EXTENSION in str(spark.conf.get("spark.sql.extensions", ""))


def cores_of(spark: "SparkSession") -> int:
    """How many tasks run at the same time, as Spark counts the cores that it has now."""
    from pyspark.sql import SparkSession

    opened: Any = spark  # through Spark Connect it is another class, which knows no context
    return spark.sparkContext.defaultParallelism if isinstance(opened, SparkSession) else _cores_by_query(spark)


def _cores_by_query(spark: "SparkSession") -> int:
    """The same of a session that has no context, from the number of parts into which rows fall by themselves."""
    from pyspark.sql import functions as F

    parts = spark.range(PARTS_MAX).select(F.spark_partition_id().alias("part"))
    rows: Any = parts.agg(F.max("part").alias("last")).collect()
    return rows[0]["last"] + 1


def release_memory(spark: "SparkSession") -> None:
    """Gives back to the system what work that is done has left in the JVM here, and in this process."""
    from pyspark.sql import SparkSession

    opened: Any = spark
    if isinstance(opened, SparkSession):
        jvm: Any = spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
        jvm.java.lang.System.gc()
    release_own_memory()


def release_own_memory() -> None:
    """Gives back to the system what this process has freed, and Arrow and the C library keep for the next time."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of the GNU library alone
    if trim is not None:
        trim(0)


def spark_errors() -> tuple[type[Exception], ...]:
    """What Spark raises in the driver when a job, or the JVM itself, has failed."""
    from pyspark.errors import PySparkException

    protocol: Any = importlib.import_module("py4j.protocol")  # it comes without types
    return (PySparkException, protocol.Py4JError)


def _connect(remote: str) -> "SparkSession":
    from pyspark.sql import SparkSession

    return SparkSession.builder.remote(remote).getOrCreate()


def _start(master: str, settings: dict[str, str]) -> "SparkSession":
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    _prepare_environment()
    log = Path(tempfile.mkstemp(prefix="parley-spark-", suffix=".log")[1])
    conf = SparkConf().setMaster(master).setAppName(APP_NAME).setAll(list(_settings(master, settings).items()))
    try:
        with log.open("ab") as sink:
            launcher: Any = java_gateway
            # A group of its own: an interrupt at the terminal is for this process, which ends the JVM in order.
            gateway = launcher.launch_gateway(conf, {"stdout": sink, "stderr": sink, "process_group": 0})
        with _interrupts_kept():
            context = SparkContext(conf=conf, gateway=gateway)
        context.setLogLevel("ERROR")
        return SparkSession(context)  # fails here if no cluster answered
    except spark_errors() as error:
        raise SparkFailed(f"Spark did not start: {_first_line(error)}\n{_end_of(log)}") from error
    finally:
        log.unlink(missing_ok=True)  # whoever writes to it goes on doing so; nobody has to clear it away


@contextmanager
def _interrupts_kept() -> Generator[None]:
    """Leaves SIGINT to whom it was given. A context takes it and cancels its jobs; a watch wants to end them first."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _settings(master: str, settings: dict[str, str]) -> dict[str, str]:
    ours = {**_SESSION, **_EMBEDDED}
    if master.startswith("local"):
        # Nothing of an embedded Spark is reachable from another machine, and no name has to be resolved.
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        ours["spark.driver.extraJavaOptions"] = f"{_collector(os.cpu_count() or 1)} {HEAP_KEPT}"
        ours["spark.sql.shuffle.partitions"] = str(SHUFFLE_PARTITIONS_PER_CORE * (os.cpu_count() or 1))
    if _delta_jars():
        ours |= {"spark.sql.extensions": DELTA_EXTENSION, "spark.sql.catalog.spark_catalog": DELTA_CATALOG}
    return ours | settings


def _collector(cores: int) -> str:
    return "-XX:+UseSerialGC" if cores <= SERIAL_CORES_MAX else "-XX:+UseG1GC"


def _prepare_environment() -> None:
    """What a JVM that this process starts has to find. Without it, workers would run another Python."""
    os.environ["JAVA_HOME"] = str(find_java_home(parley_home()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _delta_jars() -> list[Path]:
    """The jars of Delta where Spark takes its class path from."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    return sorted((home / "jars").glob("delta-spark_*.jar"))


def _first_line(error: BaseException) -> str:
    """The line that matters: the JVM's own first one stands below that of the call by which it was asked."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    below = lines[1].removeprefix(": ") if lines[0].startswith("An error occurred while calling") and lines[1:] else ""
    return below or lines[0]


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARS_SHOWN:].strip()
