"""The wheel alone, in an environment without the source, is a working Parley.

The environment holds the installed wheel and links to exactly the distributions that the wheel says it requires, so a
file that was not packed or a dependency that was not declared fails here, and nothing is fetched.
"""

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import parley

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution, so that one is proven whole too."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fresh environment's commands, with the wheel installed in it."""
    home = tmp_path_factory.mktemp("env")
    venv.create(home, with_pip=False)
    commands = home / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(commands / "python")]
    subprocess.run([*pip, "install", "-qq", "--no-deps", "--no-index", str(wheel)], check=True)
    (packages,) = home.glob("lib/python3*/site-packages")
    (installed,) = packages.glob("parley_mesh-*.dist-info")
    for name in required_by(PathDistribution(installed).requires):
        link_distribution(name, packages)
    return commands


def required_by(requirements: list[str] | None, extras: frozenset[str] = frozenset()) -> Iterator[str]:
    """Names of the distributions that are required here, and of those that they require."""
    for requirement in map(Requirement, requirements or []):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield requirement.name
            yield from required_by(distribution(requirement.name).requires, frozenset(requirement.extras))


def link_distribution(name: str, packages: Path) -> None:
    files = distribution(name).files or []
    for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
        link = packages / top
        if not link.exists():
            link.symlink_to(Path(str(distribution(name).locate_file(top))))


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert "parley/py.typed" in packed
    assert any(name.endswith(".sql") for name in packed)
    assert packed == expected


def test_the_installed_wheel_serves(environment: Path, tmp_path: Path) -> None:
    outside = {"HOME": str(tmp_path), "PATH": f"{environment}{os.pathsep}{os.defpath}", "LANG": "C.UTF-8"}
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    def run(*command: str) -> str:
        result = subprocess.run(command, cwd=workspace, env=outside, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
        return result.stdout

    where = run("python", "-c", "import parley; print(parley.__file__)")
    assert Path(where.strip()).is_relative_to(environment.parent)
    assert parley.__version__ in run("parley", "--version")
    run("parley", "init")
    run("parley", "up", "--detach")
    try:
        run("parley", "status")
    finally:
        run("parley", "down")
