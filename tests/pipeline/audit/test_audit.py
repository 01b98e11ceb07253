"""The audit is clean on what hubs leave behind, and finds and names every kind of planted damage.

One audit looks at all of these hubs at once: each kind of damage is planted in a hub of its own.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw
import pytest

from parley.core.clock import ManualClock
from parley.core.pipeline_errors import AuditNeedsFile
from parley.pipeline.audit.checks import CHECKS
from parley.pipeline.audit.report import AuditReport
from parley.pipeline.audit.run import SUMMARY, audit
from parley.pipeline.hubs import HubRef
from parley.pipeline.ingest import cursor_name, ingest, write_range
from parley.pipeline.lake import Lake, Step, commit
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.source.ranges import EventRange
from parley.pipeline.source.reading import read_bounds
from parley.workspace.layout import Workspace
from tests.pipeline.audit.damage import PLANTED, PLANTED_IN_ARCHIVED, Damage
from tests.pipeline.audit.worlds import adopted, archive, copy_of, make_model, of_schema
from tests.pipeline.logs import make_hub
from tests.workspace.databases import START_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1200)

CLEAN = ("model", "archived", "adopted", "history 1", "history 2", "schema 1", "schema 2", "in the lake", "empty")
LAKE_DAMAGE = {
    "bronze has an event otherwise": {"bronze.differs"},
    "bronze has an event that is gone": {"bronze.unknown", "events.gap"},
    "bronze has events twice": {"bronze.twice"},
    "bronze lacks events": {"bronze.missing"},
}


class Audited(NamedTuple):
    report: AuditReport
    hubs: dict[str, HubRef]
    lake: Lake

    def checks(self, name: str) -> set[str]:
        """The checks that found damage in a hub."""
        return {
            verdict.check.id
            for verdict in self.report.verdicts
            if verdict.status == "error" and any(each.db_id == self.hubs[name].db_id for each in verdict.listed)
        }


@pytest.fixture(scope="module")
def audited(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Audited:
    root = tmp_path_factory.mktemp("audited")
    model = make_model(root / "the model")
    hubs = {damage.name: copy_of(model, root / damage.name, damage.plant) for damage in PLANTED}
    hubs |= {name: copy_of(model, root / name) for name in ("model", "in the lake")}
    lake = Lake.open_or_create(root / "lake")
    hubs |= _in_lake(spark, lake, model, root, hubs["in the lake"])
    archive(model)
    hubs |= {damage.name: copy_of(model, root / damage.name, damage.plant) for damage in PLANTED_IN_ARCHIVED}
    hubs["archived"] = copy_of(model, root / "archived")
    hubs["adopted"] = adopted(root / "adopted")
    hubs["empty"] = make_hub(root / "empty")
    hubs |= {f"history {seed}": make_hub(root / f"history {seed}", steps=150, seed=seed) for seed in (1, 2)}
    hubs |= {f"schema {version}": of_schema(root / f"schema {version}", version) for version in (1, 2)}
    folder = root / "copies"
    folder.mkdir()
    report = audit(spark, list(hubs.values()), lake=lake, folder=folder, clock=ManualClock(START_MS))
    assert list(folder.iterdir()) == []
    return Audited(report, hubs, lake)


def _in_lake(spark: "SparkSession", lake: Lake, model: Workspace, root: Path, clean: HubRef) -> dict[str, HubRef]:
    """Hubs whose events bronze has, and then has otherwise than their logs."""
    hubs = {name: copy_of(model, root / name) for name in LAKE_DAMAGE}
    otherwise, gone, twice, lacks = hubs.values()
    ingest(spark, lake, [clean, otherwise, gone, twice])
    commit(lake, EVENTS, write_range(lake, EventRange(twice, 0, 5), 0).files)
    commit(lake, EVENTS, [], cursors=[Step(cursor_name(lacks.db_id), None, read_bounds(lacks).hi)])
    where = "WHERE entity_id = 'first' AND name = 'plugin.failed'"
    for hub, statement in (
        (otherwise, f"UPDATE events SET data_json = json_set(data_json, '$.reason', 'another') {where}"),
        (gone, f"DELETE FROM events {where}"),
    ):
        assert hub.database is not None
        connection = apsw.Connection(hub.database)
        for trigger in ("prevent_event_mutation", "prevent_event_delete"):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(statement)
        connection.close()
    return hubs


@pytest.mark.parametrize("name", CLEAN)
def test_what_hubs_leave_behind_is_clean(audited: Audited, name: str) -> None:
    assert audited.checks(name) == set()


@pytest.mark.parametrize("damage", [*PLANTED, *PLANTED_IN_ARCHIVED], ids=lambda damage: damage.name)
def test_planted_damage_is_found_by_its_own_check_alone(audited: Audited, damage: Damage) -> None:
    assert audited.checks(damage.name) == damage.checks


@pytest.mark.parametrize("name", LAKE_DAMAGE)
def test_bronze_that_is_not_the_log_is_found(audited: Audited, name: str) -> None:
    assert audited.checks(name) == LAKE_DAMAGE[name]


def test_every_check_is_shown_to_find_something(audited: Audited) -> None:
    planted = {check for damage in (*PLANTED, *PLANTED_IN_ARCHIVED) for check in damage.checks}
    planted |= {check for checks in LAKE_DAMAGE.values() for check in checks}
    notes = {check.id for check in CHECKS.values() if check.severity == "note"}
    assert planted == CHECKS.keys() - notes
    assert next(each for each in audited.report.verdicts if each.check.id == "events.clock").status == "warn"


def test_differences_are_explained_and_the_verdicts_kept_in_the_lake(audited: Audited) -> None:
    report = audited.report
    assert report.damaged
    said: dict[str, Any] = json.loads((audited.lake.own / SUMMARY).read_bytes())
    assert said == report.summary()
    assert [each["name"] for each in said["checks"]] == list(CHECKS)
    hub = audited.hubs["another sender"]
    (found,) = (
        each
        for check in said["checks"]
        for each in check["findings"]
        if each["db_id"] == hub.db_id and check["verdict"] == "error"
    )
    assert (found["place"], found["column"], found["found"]) == ("messages", "sender", "eve")
    assert found["expected"] in ("ann", "bob")
    assert found["id"].startswith("msg_")
    for part in (hub.source, "messages", found["id"], "sender", found["expected"], "eve"):
        assert part in found["explanation"]
    assert all(check["cause"] and check["remedy"] for check in said["checks"] if check["total"])


def test_a_hub_by_its_address_alone_cannot_be_audited(spark: "SparkSession") -> None:
    with pytest.raises(AuditNeedsFile, match="http://127"):
        audit(spark, [HubRef("id", "http://127.0.0.1:1", url="http://127.0.0.1:1")])
