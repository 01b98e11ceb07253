"""How Spark is set up where many small queries are asked."""

FOR_SMALL_QUERIES = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}
"""Hundreds of queries, each once and over few rows: compiling them takes longer than running them. Clusters, those who
are killed, the demo and the benchmarks run with the product's own settings."""
