"""Asking the lake in SQL."""

import datetime as dt
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from parley.app.pipeline.opening import Place, open_lake, spark_session
from parley.core.errors import InvalidInput
from parley.pipeline.lake import register_views
from parley.pipeline.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


class Answer(NamedTuple):
    """The columns of an answer, and its rows, which come one at a time while the session is open."""

    columns: list[str]
    rows: Iterator[list[Any]]


def ask(place: Place, query: str, progress: Progress, show: "Callable[[Answer], None]") -> None:
    """Runs a query over the lake's tables and hands the answer to ``show``. Raises ``InvalidInput`` for a bad query."""
    from pyspark.errors import AnalysisException, ParseException

    lake = open_lake(place)
    with spark_session(place, progress) as spark:
        views = register_views(spark, lake)
        try:
            with progress.stage("asking"):
                frame = spark.sql(query)
                columns = frame.columns
        except (AnalysisException, ParseException) as error:
            said = str(error).strip().splitlines()[0]
            raise InvalidInput(f"{said} (tables: {', '.join(views) or 'none yet'})", tables=views) from error
        show(Answer(columns, _rows(frame)))


def _rows(frame: "DataFrame") -> Iterator[list[Any]]:
    row: Any
    for row in frame.toLocalIterator():
        yield [_plain(value) for value in row]


def _plain(value: Any) -> Any:
    """A value of Spark's as JSON has it; what is no number there is the text that Spark itself writes."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if hasattr(value, "asDict"):
        return {name: _plain(member) for name, member in value.asDict().items()}
    if isinstance(value, dict):
        return {str(name): _plain(member) for name, member in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[Any]", value)]
    return str(value)
