"""Building the tables that follow from bronze: silver, and gold from it."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from parley.app.pipeline.brokers import build_mesh
from parley.app.pipeline.opening import Place, open_lake, settings_of, spark_session
from parley.core.settings import PipelineSettings
from parley.pipeline.gold.building import build_gold
from parley.pipeline.lake import Lake
from parley.pipeline.progress import Progress, Stage
from parley.pipeline.silver import build_silver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_build(place: Place, progress: Progress) -> dict[str, Any]:
    """Brings silver and gold up to what bronze holds."""
    lake, settings = open_lake(place), settings_of(place).pipeline
    with spark_session(place, progress) as spark:
        return {"lake": lake.root, **build_stages(spark, lake, settings, progress)}


def build_stages(spark: "SparkSession", lake: Lake, settings: PipelineSettings, progress: Progress) -> dict[str, Any]:
    """All builds in a session that is open, and what each has done."""
    with progress.stage("silver", "tables") as stage:
        silver = build_silver(spark, lake, progress=_telling(stage))
    with progress.stage("gold", "tables") as stage:
        gold = build_gold(spark, lake, settings, progress=_telling(stage))
    with progress.stage("mesh"):
        mesh = build_mesh(lake)
    return {"silver": asdict(silver), "gold": asdict(gold), "mesh": mesh}


def _telling(stage: Stage) -> Callable[[str, int, int], None]:
    return lambda _table, done, total: stage.tell(done, total)
