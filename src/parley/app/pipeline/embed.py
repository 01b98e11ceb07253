"""Vectors of all messages: what is new is taken in first, then the model embeds what has no vector of it yet."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from parley.app.pipeline.opening import Place, hubs_of, open_or_create_lake, spark_session
from parley.app.pipeline.upkeep import current_messages
from parley.pipeline.embed.models import choose_model
from parley.pipeline.embed.run import embed
from parley.pipeline.progress import Progress


def run_embed(place: Place, progress: Progress, model: str, *, retry_failed: bool) -> dict[str, Any]:
    """Embeds the messages of the hubs."""
    hubs, lake = hubs_of(place), open_or_create_lake(place)
    # What no model may see: the files of the hubs, and the lake with all that was ever said.
    hidden = (*(Path(hub.database).parent for hub in hubs if hub.database is not None), Path(lake.root))
    chosen = choose_model(model, hidden)
    with spark_session(place, progress) as spark:
        messages = current_messages(spark, lake, hubs, progress)
        with progress.stage("embed", "messages") as stage:
            report = embed(spark, lake, messages, chosen, retry_failed=retry_failed, progress=stage.tell)
    return {"lake": lake.root, **asdict(report)}
