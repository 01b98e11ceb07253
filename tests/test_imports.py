"""What an import may load: the command line and the SDK start without any server, and the rooms keep their table."""

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import grimp
import pytest

from scripts.rooms_contract import allowed_imports, find_violations

ROOT = Path(__file__).parent.parent
MACHINE = {
    *("asyncio", "fcntl", "os", "pathlib", "random", "secrets", "shutil", "socket", "subprocess", "tempfile"),
    *("threading", "time", "uuid"),
}
"""What a module imports that opens a file, a socket or a thread, reads a clock or draws randomness."""
SERVER_SIDE = {"uvicorn", "starlette", "parley.hub", "parley.app", "parley.serve", "pyspark"}


@pytest.mark.parametrize("module", ["parley.cli", "parley.client"])
def test_import_loads_no_server_and_no_spark(module: str) -> None:
    code = f"import {module}, sys; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert SERVER_SIDE.isdisjoint(result.stdout.split())


def test_import_of_the_bus_loads_no_sqlite() -> None:
    code = "import parley.bus, sys; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"apsw", "parley.sqlite"}.isdisjoint(result.stdout.split())
    assert "parley.bus.memory_store" in result.stdout.split()


def test_importing_the_package_loads_none_of_its_rooms() -> None:
    code = "import parley, sys; print(*(name for name in sys.modules if name.startswith('parley.')))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


def test_the_bus_loads_no_database() -> None:
    """Without a durable store it keeps nothing, so it needs none."""
    code = "import parley.bus, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"apsw", "sqlite3", "parley.sqlite"}.isdisjoint(loaded)


def test_the_rooms_of_the_tree_keep_the_table() -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_row_s_only_the_modules_that_core_names_touch_the_machine() -> None:
    core = ROOT / "src" / "parley" / "core"
    about = ast.get_docstring(ast.parse((core / "__init__.py").read_text())) or ""
    touching = {
        path.stem
        for path in core.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom) and MACHINE & {_root(name) for name in _imported(node)}
    }
    assert touching == set(re.findall(r"`(\w+)`", about))


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]


def _root(name: str) -> str:
    return name.partition(".")[0]


def test_a_room_may_import_what_its_rooms_may_import() -> None:
    assert allowed_imports(["a:", "b: a", "c: b"])["c"] == {"a", "b"}


@pytest.mark.parametrize("line", ["b", "b: later"])
def test_a_line_that_names_no_rule_or_a_later_room_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="on a line above"):
        allowed_imports(["a:", line])


def test_the_contract_finds_each_import_that_the_table_forbids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positive control: a house with an import upward, one sideways, one at its front door, and a room unnamed."""
    house = {
        "__init__.py": "from house.low import thing",
        "low/__init__.py": "thing = 1",
        "low/up.py": "def late():\n    from house.left import part",
        "left/__init__.py": "from house.low import thing\nfrom house import low\npart = thing",
        "right/__init__.py": "import house.left",
        "unnamed.py": "",
    }
    for name, source in house.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(tmp_path)

    graph = grimp.build_graph("house", cache_dir=None)
    violations = find_violations(graph, "house", allowed_imports(["low:", "left: low", "right: low", "unbuilt: right"]))

    assert sorted(violations) == [
        "house (line 1) may not import house.low",
        "house.low.up (line 2) may not import house.left",
        "house.right (line 1) may not import house.left",
        "house.unnamed has no line in the table of rooms",
    ]
