"""Canonical JSON inside Spark, by the same function as everywhere else."""

from typing import Any

import pyarrow as pa
from pyspark.sql import Column, functions
from pyspark.sql.types import StringType

from parley.core.canonical import canonical_json, parse_strict
from parley.core.errors import InvalidInput


def canonical(text: Column) -> Column:
    """The canonical text of JSON text. What has none, such as a number too large to be exact, stays as it is."""
    return canonical_udf()(text)


def canonical_udf() -> Any:
    """The same as a function that a session can give a name in SQL."""
    spark: Any = functions
    return spark.arrow_udf(_canonical_texts, StringType())


def _canonical_texts(texts: pa.Array) -> pa.Array:
    return pa.array([_canonical_text(text) for text in texts.to_pylist()], pa.string())


def _canonical_text(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return canonical_json(parse_strict(text)).decode()
    except InvalidInput:
        return text
