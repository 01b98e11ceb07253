"""Sparks that are not embedded: a standalone cluster of one master and two workers, and a Spark Connect server.

Both come from the package itself, listen on loopback and on free ports, and tell in their log where. ``smoke`` tries
the pipeline on any of them.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from parley.pipeline.java import find_java_home
from parley.pipeline.lake import Lake
from tests.pipeline.bronze import bronze_problems
from tests.pipeline.logs import log_rows, make_hub
from tests.pipeline.sessions import HASTY_JVM

STEPS = 60
CORES = 2
"""Of each Spark that is tried."""
HOME = Path(pyspark.__file__).parent
START_SECONDS = 240.0
STOP_SECONDS = 60.0
_MASTER = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
_WORKER = re.compile(r"Successfully registered with master")
_CONNECT = re.compile(r"Spark Connect server started at: [^\s]*:(\d+)")
LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""


def smoke(folder: Path, *options: str) -> list[str]:
    """What does not work for two small hubs on the Spark that the options name, in a process of its own."""
    hubs = [make_hub(folder / "hubs" / name, steps=STEPS) for name in ("a", "b")]
    logged = sum(len(log_rows(str(hub.database))) for hub in hubs)
    argv = [sys.executable, "-m", "tests.pipeline.smoke", str(folder), *options]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [done.stderr[-4000:]]
    found = json.loads(done.stdout.splitlines()[-1])
    counts = {name: found[name] for name in ("read", "ingested", "by_sql")}
    problems = [f"{name} {count} of {logged} events" for name, count in counts.items() if count != logged]
    if not found["messages"]:
        problems.append("no messages were folded")
    if found["cores"] != CORES:
        problems.append(f"{found['cores']} cores were counted")
    if "--whole" in options and not Path(found["report"]).is_file():
        problems.append("there is no report")
    return problems + bronze_problems(Lake.open(folder / "lake"), hubs)


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Generator[str]:
    """The address of a master with so many workers, one core each."""
    with ExitStack() as stack:
        said = stack.enter_context(
            _java(folder, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0",
                  "--webui-port", "0", says=_MASTER)
        )  # fmt: skip
        for number in range(workers):
            stack.enter_context(
                _java(folder, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1",
                      "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / f"work-{number}"), said[1],
                      says=_WORKER)
            )  # fmt: skip
        yield said[1]


@contextmanager
def connect_server(folder: Path) -> Generator[str]:
    """The address of a Spark Connect server."""
    with _java(
        folder,
        "org.apache.spark.deploy.SparkSubmit",
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", "spark.connect.grpc.binding.port=0"),
        *("--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"),
        *("--conf", f"spark.driver.extraJavaOptions={HASTY_JVM}"),
        *("--conf", "spark.ui.enabled=false", "--master", "local[2,4]", "spark-internal"),
        says=_CONNECT,
    ) as said:
        yield f"sc://127.0.0.1:{said[1]}"


@contextmanager
def _java(folder: Path, *argv: str, says: re.Pattern[str]) -> Generator[re.Match[str]]:
    """A JVM of Spark's, from the line of its log that says that it serves to its end."""
    (folder / "log4j2.properties").write_text(LOGGING)
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java_home(folder)),
        "SPARK_HOME": str(HOME),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    process = subprocess.Popen(
        [HOME / "bin" / "spark-class", *argv], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    found: list[re.Match[str]] = []
    served = threading.Event()

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            match = None if found else says.search(line)
            if match is not None:
                found.append(match)
                served.set()
        served.set()

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        assert served.wait(START_SECONDS), f"{argv[0]} did not start in time"
        assert found, f"{argv[0]} ended with {process.wait()}"
        yield found[0]
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        listener.join()
        assert process.stderr is not None
        process.stderr.close()
