"""What the doctor says about plugins: also of those that only fail once they are loaded."""

from pathlib import Path

import pytest

from parley.app.make import make_workspace
from parley.app.plugins import check_plugins
from parley.sandbox import missing
from parley.workspace.checks import Check
from parley.workspace.config import load_settings
from parley.workspace.layout import Workspace
from parley.workspace.plugins import measure
from parley.workspace.trust import TrustStore, parley_home

pytestmark = pytest.mark.skipif(bool(missing()), reason="no sandbox here")

WORKS = "def enrich(message, config):\n    return []\n"
ENTRY = '[[plugins]]\nname = "{name}"\ntype = "linkifier"\nmodule = "{name}.py"\n'


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("PARLEY_HOME", str(tmp_path / "home"))
    return make_workspace(tmp_path / "w")[0]


def checked(workspace: Workspace, modules: dict[str, str]) -> Check:
    """What is said about the plugins once these modules are there and trusted."""
    for name, source in modules.items():
        (workspace.root / f"{name}.py").write_text(source)
    workspace.config.write_text("".join(ENTRY.format(name=name) for name in modules))
    measured = measure(workspace, load_settings(workspace.config))
    TrustStore(parley_home()).trust(workspace.root, measured, "2026-01-01T00:00:00.000Z")
    (check,) = (check for check in check_plugins(workspace) if check.name == "plugins")
    return check


def test_plugins_that_start_are_fine(workspace: Workspace) -> None:
    assert checked(workspace, {"works": WORKS}).status == "ok"


def test_a_plugin_that_cannot_be_imported_is_an_error_that_says_why(workspace: Workspace) -> None:
    check = checked(workspace, {"works": WORKS, "lacks": f"import no_such_package\n{WORKS}"})
    assert check.status == "error"
    assert "lacks: does not start: ModuleNotFoundError" in check.message
    assert "works" not in check.message
