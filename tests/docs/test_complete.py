"""Nothing that has a public name is missing from the documents, and they name nothing that does not exist."""

import re
from pathlib import Path

import pytest

from parley.app.doctor import examine
from parley.app.make import make_workspace
from parley.core.registry import registry
from parley.hub.http.table import ENDPOINTS
from scripts.docs import ROOT, command_helps
from tests.campaign import __main__ as campaigns
from tests.docs.markdown import NAMES, document, prose

PUBLIC = registry()
COMMANDS = {name for name, _ in command_helps()}
EXPECTED = {
    "docs/protocol.md": [
        *(f"`{error.code}`" for error in PUBLIC.errors),
        *(f"`{event.name}`" for event in PUBLIC.events),
        *(f"`{field}`" for event in PUBLIC.events for field in event.fields),
        *(f"|{close.code}|" for close in PUBLIC.close_codes),
        *(f"`{endpoint.method} {endpoint.path}`" for endpoint in ENDPOINTS),
        *(f"`{param.name}`" for endpoint in ENDPOINTS for param in endpoint.params),
    ],
    "docs/operations.md": [
        *(f"`{setting.name}`" for setting in PUBLIC.settings),
        *(f"`{metric.name}`" for metric in PUBLIC.metrics),
        *(f"|{int(code)}|" for code in PUBLIC.exits),
    ],
    "docs/cli.md": [f"## `{name}`" for name in COMMANDS],
    "docs/testing.md": [f"`{name}`" for name in campaigns.NAMES],
}
_WORD = r"[a-z][a-z-]*"


@pytest.mark.parametrize("name", EXPECTED)
def test_every_public_name_is_in_its_document(name: str) -> None:
    text = document(name)
    assert len(EXPECTED[name]) >= 7
    assert [expected for expected in EXPECTED[name] if expected not in text] == []


def test_the_registry_finds_what_is_missing() -> None:
    """Positive control."""
    assert "`NO_SUCH_CODE`" not in document("docs/protocol.md")


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
        ("cuts", f"{options.cuts:,} cuts"),
        ("stride", "every operation"),
        ("full-disks", f"{options.full_disks} of each kind"),
        ("rounds", f"{options.rounds} rounds"),
        ("clients", f"{options.clients} clients"),
        ("soak-seconds", f"{options.soak_seconds:g} seconds"),
    ):
        assert f"{told} (`--{flag}" in text


@pytest.mark.parametrize("name", NAMES)
def test_no_document_names_a_command_that_does_not_exist(name: str) -> None:
    named = re.findall(rf"`parley ({_WORD})(?: ({_WORD}))?", prose(document(name)))
    groups = {command.split()[1] for command in COMMANDS if command.count(" ") == 2}
    shown = {f"parley {first} {second}" if first in groups and second else f"parley {first}" for first, second in named}
    assert shown - COMMANDS == set()


@pytest.mark.parametrize("name", NAMES)
def test_no_document_names_a_make_target_that_does_not_exist(name: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", document("Makefile"), re.MULTILINE))
    assert set(re.findall(rf"(?:`|^)make ({_WORD})", document(name), re.MULTILINE)) - targets == set()
