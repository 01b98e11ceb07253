"""The locks are what a fresh clone installs, so they must be whole, agree with each other and with the package."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
PIN = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / "requirements" / f"{name}.lock").read_text()))


def test_every_dependency_of_the_package_is_locked_at_a_version_it_accepts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = pins("runtime")
    for requirement in map(Requirement, project["dependencies"]):
        assert requirement.specifier.contains(locked[requirement.name]), requirement


def test_tests_run_with_the_versions_that_users_get() -> None:
    assert pins("dev").items() >= pins("runtime").items()
    assert pins("dev").items() >= pins("build").items()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_hashes_and_no_place(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert "--index-url" not in text
    assert "--find-links" not in text
    for entry in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in entry, entry
