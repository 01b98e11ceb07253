"""What a step of the pipeline leaves behind in the JVM is let go of before the next one begins."""

import gc
import time
from typing import Any

from pyspark.sql import SparkSession

from parley.pipeline.session import release_memory

HELD_BYTES = 64 * 2**20
"""Far more than the threads of a session make meanwhile, and less than other tests leave free in one piece."""
DEADLINE_SECONDS = 60.0


def test_what_nobody_holds_any_more_is_out_of_the_heap_when_memory_is_released(spark: SparkSession) -> None:
    context: Any = spark.sparkContext
    runtime = context._jvm.java.lang.Runtime.getRuntime()

    def used() -> int:
        return runtime.totalMemory() - runtime.freeMemory()

    release_memory(spark)
    release_memory(spark)  # what the first look let go of indirectly goes with the second
    before = used()
    held = context._jvm.java.nio.ByteBuffer.allocate(HELD_BYTES)
    release_memory(spark)
    assert used() > before + HELD_BYTES // 2
    del held
    gc.collect()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while used() > before + HELD_BYTES // 2:  # the JVM hears from another thread that nobody holds it any more
        assert time.monotonic() < deadline
        release_memory(spark)
