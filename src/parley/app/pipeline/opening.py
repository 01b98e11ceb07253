"""From what a user named to what the pipeline works with. Every command of the pipeline starts here."""

from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from parley.core.errors import InvalidInput
from parley.core.pipeline_errors import SparkFailed
from parley.core.settings import Settings
from parley.pipeline.brokers.stores import BrokerRef, find_brokers
from parley.pipeline.hubs import HubRef, find_hubs, is_pattern
from parley.pipeline.lake import Lake
from parley.pipeline.progress import Progress
from parley.pipeline.session import has_session, open_session, spark_errors
from parley.workspace import discovery
from parley.workspace.config import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pyspark.sql import SparkSession

LAKE_NAME: Final = "lake"


class Place(Protocol):
    """What the user named."""

    @property
    def workspaces(self) -> Sequence[str]: ...
    @property
    def hubs(self) -> Sequence[str]: ...
    @property
    def brokers(self) -> Sequence[str]: ...
    @property
    def token_file(self) -> Path | None: ...
    @property
    def lake(self) -> Path | None: ...
    @property
    def master(self) -> str | None: ...
    @property
    def remote(self) -> str | None: ...


def hubs_of(place: Place) -> list[HubRef]:
    """The hubs that were named, or that of the nearest workspace unless brokers were named alone."""
    if place.brokers and not (place.workspaces or place.hubs):
        return []
    token_file = None if place.token_file is None else str(place.token_file.absolute())
    return find_hubs(place.workspaces, place.hubs, token_file)


def brokers_of(place: Place) -> list[BrokerRef]:
    """The brokers that were named."""
    return find_brokers(place.brokers)


def lake_folder(place: Place) -> Path:
    """The lake's folder: the one that was named, else the one in the state folder of the only workspace there is."""
    if place.lake is not None:
        return place.lake
    if (
        place.hubs
        or len(place.workspaces) > 1
        or any(map(is_pattern, place.workspaces))
        or (place.brokers and not place.workspaces)
    ):
        raise InvalidInput("Name the lake with --lake: what was named is not a single workspace")
    workspace = discovery.at(Path(place.workspaces[0])) if place.workspaces else discovery.discover()
    return workspace.state / LAKE_NAME


def open_lake(place: Place) -> Lake:
    """The lake, which has to be there."""
    return Lake.open(lake_folder(place))


def open_or_create_lake(place: Place) -> Lake:
    """The lake, made if it is not there."""
    return Lake.open_or_create(lake_folder(place))


def settings_of(place: Place) -> Settings:
    """The settings of the first workspace that was named, or of the nearest; the defaults where there is none."""
    if place.workspaces or not (place.hubs or place.brokers or place.lake):
        hub = find_hubs(place.workspaces)[0]
        return load_settings(discovery.at(Path(hub.source)).config)
    return Settings()


@contextmanager
def spark_when_needed(place: Place, progress: Progress) -> "Generator[Callable[[], SparkSession]]":
    """What opens a session when it is first called; the session ends with the block."""
    with ExitStack() as stack:
        opened: list[SparkSession] = []

        def session() -> "SparkSession":
            if not opened:
                opened.append(stack.enter_context(spark_session(place, progress)))
            return opened[0]

        yield session


@contextmanager
def spark_session(place: Place, progress: Progress) -> "Generator[SparkSession]":
    """A session that ends with the block, unless it was open before.

    What Spark fails with inside comes out as ``SparkFailed``.
    """
    if place.master is not None and place.remote is not None:
        raise InvalidInput("Give --master or --remote, not both")
    borrowed = has_session()
    with progress.stage("starting Spark"):
        spark = open_session(master=place.master, remote=place.remote)
    try:
        yield spark
    except spark_errors() as error:
        raise spark_failed(error) from error
    finally:
        if not borrowed:
            spark.stop()


def spark_failed(error: Exception) -> SparkFailed:
    """What Spark said, without the JVM's stack: the last line of a Python worker's traceback, else its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    traceback = next((number for number, line in enumerate(lines) if line.startswith("Traceback (most")), None)
    if traceback is None:
        return SparkFailed(lines[0] if lines else type(error).__name__)
    raised = [line for line in lines[traceback:] if not line.startswith(("File ", "at ", "Caused by", "..."))]
    named = [line for line in raised[1:] if line.split(":", 1)[0].replace(".", "").replace("_", "").isalnum()]
    return SparkFailed(named[0] if named else lines[0])
