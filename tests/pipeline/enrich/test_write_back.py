"""``enrich --write-back``: findings go to the hub through its API, and what became of each is kept."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from parley.client import Client, FoundEnrichment, Span
from parley.core.clock import SystemClock
from parley.core.errors import HubNotRunning
from parley.pipeline.enrich import write_back as module
from parley.pipeline.enrich.plugins import choose
from parley.pipeline.enrich.run import enrich
from parley.pipeline.enrich.write_back import WriteBackReport, client_of, write_back
from parley.pipeline.hubs import HubRef
from parley.pipeline.lake import Lake
from parley.pipeline.lake.catalogue.vectors import PLUGIN_WRITE_BACKS
from tests.client.hubs import DEADLINE_SECONDS, HubProcess
from tests.pipeline.enrich.world import SETTINGS, Workbench, rows_of, standing_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTENTS = ["see T-1", "nothing", "T-2 and T-3", "raise"]
LIMITED = "[rate_limits]\nper_connection = 5\n"


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "w", CONTENTS)


@pytest.fixture
def hub(bench: Workbench) -> Iterator[HubProcess]:
    process = HubProcess(bench.root).start()
    yield process
    process.stop()


@pytest.fixture
def client(hub: HubProcess) -> Iterator[Client]:
    with Client(hub.root, sender="ann") as client:
        yield client


def send(
    spark: "SparkSession", lake: Lake, bench: Workbench, plugin: str = "tickets", **options: Any
) -> WriteBackReport:
    """What the command does, with what happens between its two halves."""
    between: Callable[[], None] = options.pop("between", lambda: None)
    messages, standing = bench.messages(spark), standing_of(spark, bench.hub)
    chosen = choose([bench.hub], plugin, SystemClock(), bench.home)
    enrich(spark, lake, messages, chosen)
    between()
    return write_back(spark, lake, [bench.hub], messages, standing, chosen, **options)


def found(client: Client, *ids: str) -> list[tuple[str, int, dict[str, Any]]]:
    return [(each.message_id, each.span.start, each.data) for each in client.list_enrichments(ids).enrichments]


def test_what_was_found_is_in_the_hub_and_what_was_sent_is_not_sent_again(
    spark: "SparkSession", lake: Lake, bench: Workbench, client: Client
) -> None:
    report = send(spark, lake, bench)
    assert report == WriteBackReport(due=2, stored=2)
    one, _, two, _ = bench.ids
    assert found(client, *bench.ids) == [(one, 4, {"number": 1}), (two, 0, {"number": 2}), (two, 8, {"number": 3})]
    rows = rows_of(spark, lake, PLUGIN_WRITE_BACKS)
    assert [row["outcome"] for row in rows] == ["stored", "stored"]
    events = {event.event_id: event.name for event in client.read_events().events}
    assert [events[row["event_id"]] for row in rows] == ["message.enriched"] * 2
    assert send(spark, lake, bench) == WriteBackReport()


def test_where_nothing_is_found_any_more_what_stood_there_goes(
    spark: "SparkSession", lake: Lake, bench: Workbench, client: Client
) -> None:
    stale = FoundEnrichment("ticket", Span(0, 7), {"number": 9})
    client.store_findings(bench.ids[1], "tickets", 1, enrichments=[stale])
    right = FoundEnrichment("ticket", Span(4, 7), {"number": 1})
    client.store_findings(bench.ids[0], "tickets", 1, enrichments=[right])
    assert send(spark, lake, bench) == WriteBackReport(due=3, stored=2, unchanged=1)
    assert found(client, bench.ids[1]) == []


def test_attachments_are_added_to_the_topic(
    spark: "SparkSession", lake: Lake, bench: Workbench, client: Client
) -> None:
    assert send(spark, lake, bench, "notes") == WriteBackReport(due=2, stored=2)
    topic = client.get_message(bench.ids[0]).message.topic_id
    there = client.list_attachments(topic, kind="ticket").attachments
    assert sorted(each.value_json["number"] for each in there) == [1, 2, 3]


def test_messages_that_changed_since_are_counted_and_keep_what_is_true_of_them(
    spark: "SparkSession", lake: Lake, bench: Workbench, client: Client
) -> None:
    def others_write() -> None:
        client.edit_message(bench.ids[0], "T-1 instead")
        client.delete_message(bench.ids[2])

    report = send(spark, lake, bench, between=others_write)
    assert report == WriteBackReport(due=2, stale=1, gone=1)
    assert found(client, *bench.ids) == []
    again = send(spark, lake, bench)
    assert again == WriteBackReport(due=1, stored=1)
    assert found(client, *bench.ids) == [(bench.ids[0], 0, {"number": 1})]


def test_what_the_hub_does_not_take_is_refused_and_said_why(
    spark: "SparkSession", lake: Lake, bench: Workbench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_enrichments", lambda _: [FoundEnrichment("", Span(0, 1))])
    assert send(spark, lake, bench).refused == 2
    assert all("kind" in row["error"] for row in rows_of(spark, lake, PLUGIN_WRITE_BACKS))


def test_a_limited_rate_is_waited_out(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "w", ["T-1"] * 12, settings=LIMITED + SETTINGS)
    process = HubProcess(bench.root).start(limited=True)
    try:
        assert send(spark, lake, bench).stored == 12
        headers = {"Authorization": f"Bearer {process.server.auth_token}"}
        metrics = httpx.get(f"{process.server.base_url}/metrics", headers=headers, timeout=DEADLINE_SECONDS).text
    finally:
        process.stop()
    assert '"429"' in metrics


def test_a_run_that_ends_in_between_sends_the_rest_later(
    spark: "SparkSession", lake: Lake, bench: Workbench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PORTION", 1)

    class Killed(Exception):
        pass

    def stop_after_the_first(done: int, due: int) -> None:
        if done:
            raise Killed

    with pytest.raises(Killed):
        send(spark, lake, bench, progress=stop_after_the_first)
    assert len(rows_of(spark, lake, PLUGIN_WRITE_BACKS)) == 1
    assert send(spark, lake, bench).due == 1
    assert len(found(client, *bench.ids)) == 3


def test_without_a_hub_it_says_so_and_the_findings_stay_due(
    spark: "SparkSession", lake: Lake, bench: Workbench
) -> None:
    with pytest.raises(HubNotRunning):
        send(spark, lake, bench)
    process = HubProcess(bench.root).start()
    try:
        assert send(spark, lake, bench).due == 2
    finally:
        process.stop()


def test_a_hub_is_reached_by_its_address_too(
    hub: HubProcess, bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_HUB_TOKEN", hub.server.auth_token)
    there = HubRef(hub.server.db_id, hub.server.base_url, url=hub.server.base_url)
    with client_of(there) as client:
        assert client.store_findings(bench.ids[0], "tickets", 1, enrichments=[]).event_id is None
