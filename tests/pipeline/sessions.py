"""How Spark is set up where many small queries are asked."""

from parley.pipeline.session import HEAP_KEPT

HASTY_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that compiles quickly instead of well."""
FOR_SMALL_QUERIES = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": f"{HASTY_JVM} {HEAP_KEPT}",
    "spark.executor.extraJavaOptions": HASTY_JVM,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}
"""Hundreds of queries, each once and over few rows: compiling them takes longer than running them. The clusters of the
campaign, the demo and the benchmarks run with the product's own settings."""
