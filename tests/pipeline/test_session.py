"""Opening Spark: whose interrupts they are, and what is said when it does not start."""

import signal
from typing import Any

import pyspark.java_gateway
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from parley.core.pipeline_errors import SparkFailed
from parley.pipeline import session
from parley.pipeline.session import open_session


def test_what_the_jvm_says_of_a_master_that_is_none_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "An error occurred while calling None.X.\n: org.apache.spark.SparkException: Invalid master URL: x\n\tat Y"

    def launch(*_: Any) -> None:
        raise Py4JError(said)

    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(pyspark.java_gateway, "launch_gateway", launch)
    with pytest.raises(SparkFailed) as failed:
        open_session(master="x")
    assert str(failed.value).strip() == "Spark did not start: org.apache.spark.SparkException: Invalid master URL: x"


def test_an_interrupt_stays_with_whom_it_was_given_to() -> None:
    before = signal.getsignal(signal.SIGINT)
    with session._interrupts_kept():  # pyright: ignore[reportPrivateUsage]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) == before
