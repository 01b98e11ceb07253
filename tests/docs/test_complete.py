"""Nothing that has a public name is missing from the documents."""

import re
from pathlib import Path
from typing import get_args

import pytest

import parley.client
from bench import __main__ as benchmarks
from parley.app.doctor import examine
from parley.app.make import make_workspace
from parley.broker.http import ENDPOINTS as BROKER_ROUTES
from parley.bus import MeshStore, Verdict
from parley.client import AsyncClient, Client
from parley.core import limits
from parley.core.broker_settings import broker_setting_specs
from parley.core.bus_errors import StoreError
from parley.core.daemon_metrics import DAEMON_METRICS
from parley.core.daemon_settings import daemon_setting_specs
from parley.core.orphans import CHECKS as ORPHAN_CHECKS
from parley.core.registry import registry
from parley.daemon.http.table import ENDPOINTS as DAEMON_ROUTES
from parley.daemon.inbox.events import EventKind
from parley.hub.http.table import ENDPOINTS
from parley.pipeline.fold import REASONS
from parley.pipeline.lake.catalogue import TABLES as LAKE_TABLES
from parley.wire.broker import FromBroker, FromDaemon
from parley.wire.mesh_methods import METHODS, NOTICES
from scripts.docs import ROOT, command_helps
from tests.campaign import __main__ as campaigns
from tests.docs.markdown import document

PUBLIC = registry()
COMMANDS = {name for name, _ in command_helps()}
EXPECTED = {
    "docs/protocol.md": [
        *(f"`{error.code}`" for error in PUBLIC.errors if error.spoken_by == "hub"),
        *(f"`{event.name}`" for event in PUBLIC.events),
        *(f"`{field}`" for event in PUBLIC.events for field in event.fields),
        *(f"|{close.code}|" for close in PUBLIC.close_codes),
        *(f"`{endpoint.method} {endpoint.path}`" for endpoint in ENDPOINTS),
        *(f"`{param.name}`" for endpoint in ENDPOINTS for param in endpoint.params),
    ],
    "docs/broker-protocol.md": [
        *(f"`{error.code}`" for error in PUBLIC.errors if error.spoken_by == "broker"),
        *(f"|{close.code}|" for close in PUBLIC.broker_close_codes),
        *(f"`{route.method} {route.path}`" for route in BROKER_ROUTES),
        *(f"`{name}`" for name in (*METHODS, *NOTICES, *ORPHAN_CHECKS)),
        *(f"`{frame.__struct_config__.tag}`" for frame in (*get_args(FromBroker), *get_args(FromDaemon))),
    ],
    "docs/bus-store.md": [
        *(f"`{error.code}`" for error in PUBLIC.errors if issubclass(error, StoreError)),
        *(f"`{name}`" for name in vars(limits) if name.startswith("BUS_")),
        *(f"`{name}`" for name in vars(MeshStore) if not name.startswith("_")),
        *(f"`{verdict}`" for verdict in get_args(Verdict)),
    ],
    "docs/daemon.md": [
        *(f"`{error.code}`" for error in PUBLIC.errors if error.spoken_by == "daemon"),
        *(f"`{setting.name}`" for setting in daemon_setting_specs()),
        *(f"`{metric.name}`" for metric in DAEMON_METRICS),
        *(f"`{route.method} {route.path}`" for route in DAEMON_ROUTES),
        *(f"`{kind}`" for kind in get_args(EventKind)),
    ],
    "docs/bus.md": [
        f"`{error.code}`" for error in PUBLIC.errors if error.spoken_by == "bus" and not issubclass(error, StoreError)
    ],
    "docs/broker.md": [f"`{setting.name}`" for setting in broker_setting_specs()],
    "docs/operations.md": [
        *(f"`{setting.name}`" for setting in PUBLIC.settings),
        *(f"`{metric.name}`" for metric in PUBLIC.metrics),
        *(f"|{int(code)}|" for code in PUBLIC.exits),
    ],
    "docs/cli.md": [f"## `{name}`" for name in COMMANDS],
    "docs/pipeline.md": [
        *(f"`{table.view}`" for table in LAKE_TABLES),
        *(f"`{column}`" for table in LAKE_TABLES for column in table.schema.names),
        *(f"`{reason}`" for reason in REASONS),
    ],
    "docs/testing.md": [f"`{name}`" for name in (*campaigns.NAMES, *benchmarks.SCENARIOS)],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_public_name_is_in_its_document(name: str) -> None:
    text = document(name)
    assert len(EXPECTED[name]) >= 7
    assert [expected for expected in EXPECTED[name] if expected not in text] == []


def test_every_command_has_its_json_written_down() -> None:
    groups = {name.rpartition(" ")[0] for name in COMMANDS}
    text = document("docs/cli-json.md")
    assert [name for name in sorted(COMMANDS - groups) if f"`{name}" not in text] == []


def test_every_exit_code_is_in_the_contract_of_the_command_line() -> None:
    text = document("docs/cli-json.md")
    assert [code for code in PUBLIC.exits if f"| {int(code)} | {code.meaning} |" not in text] == []


def test_every_check_of_doctor_is_explained(tmp_path: Path) -> None:
    workspace, _ = make_workspace(tmp_path)
    text = document("docs/operations.md")
    names = [check.name for check in examine(workspace)]
    assert len(names) > 10
    assert [name for name in names if f"| `{name}` |" not in text] == []


def test_every_environment_variable_is_explained() -> None:
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    variables = {name for source in sources for name in re.findall(r"\"(PARLEY_[A-Z_]+)\"", source)}
    assert variables
    assert [name for name in sorted(variables) if f"`{name}`" not in document("docs/cli.md")] == []


def test_the_sizes_of_the_campaigns_are_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["campaign"])
    options = campaigns._options()  # pyright: ignore[reportPrivateUsage]
    text = document("docs/testing.md")
    for flag, told in (
        ("kills", f"{options.kills:,} cycles"),
        ("derived-kills", f"{options.derived_kills:,} kills"),
        ("cuts", f"{options.cuts:,} cuts"),
        ("stride", "every operation"),
        ("full-disks", f"{options.full_disks} of each kind"),
        ("rounds", f"{options.rounds} rounds"),
        ("clients", f"{options.clients} clients"),
        ("door-connections", f"{options.door_connections:,} connections to each"),
        ("workers", f"{options.workers} workers"),
        ("lake-kills", f"{options.lake_kills:,} kills"),
        ("soak-seconds", f"{options.soak_seconds:g} seconds"),
    ):
        assert f"{told} (`--{flag}" in text


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_every_method_of_the_clients_is_in_the_guide(client: type) -> None:
    methods = {name for name in dir(client) if not name.startswith("_")} - {"perform"}
    assert len(methods) > 20
    text = document("docs/sdk.md")
    assert [name for name in sorted(methods) if f"{name}(" not in text] == []


def test_every_name_of_the_sdk_is_in_the_guide() -> None:
    text = document("docs/sdk.md")
    assert [name for name in parley.client.__all__ if not re.search(rf"\b{name}\b", text)] == []
