"""The file of memberships: damage to it, and what meshes are called here."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from parley.core.daemon_errors import MembershipsDamaged, MeshNotAttached, MeshRequired
from parley.core.errors import ParleyError, SchemaTooNew
from parley.core.exits import Exit
from parley.daemon.memberships import Memberships
from tests.daemon.served_daemon import member


@dataclass
class Case:
    text: str
    error: type[ParleyError]


def test_two_meshes_of_one_name_are_told_apart(tmp_path: Path) -> None:
    memberships = Memberships(tmp_path / "memberships.json")
    first = memberships.add(member("home"))
    second = memberships.add(replace(member("home"), mesh_id="mesh_other"))
    third = memberships.add(replace(member("home"), mesh_id="mesh_third"))
    assert [each.slug for each in (first, second, third)] == ["home", "home-2", "home-3"]
    assert memberships.add(second) == second, "its own name is not in its way"
    assert memberships.get("home-2").mesh_id == "mesh_other"
    with pytest.raises(MeshNotAttached):
        memberships.get("home-4")


def test_where_two_have_one_name_neither_is_taken(tmp_path: Path) -> None:
    memberships = Memberships(tmp_path / "memberships.json")
    memberships.put(member("home"))
    memberships.put(replace(member("home"), mesh_id="mesh_other"))
    with pytest.raises(MeshRequired) as raised:
        memberships.get("home")
    assert raised.value.details["attached"] == [member("home").mesh_id, "mesh_other"]
    assert memberships.get("mesh_other").mesh_id == "mesh_other"


@pytest.mark.parametrize(
    "case",
    [Case("{", MembershipsDamaged), Case("[]", MembershipsDamaged), Case('{"version": 9, "meshes": []}', SchemaTooNew)],
    ids=["cut", "no_object", "newer"],
)
def test_a_file_that_cannot_be_read_stops_the_start_for_good(tmp_path: Path, case: Case) -> None:
    path = tmp_path / "memberships.json"
    path.write_text(case.text)
    with pytest.raises(case.error) as raised:
        Memberships(path).load()
    assert 20 <= raised.value.exit_code <= 29, "a service manager must not try again"
    assert raised.value.exit_code in (Exit.CORRUPT, Exit.SCHEMA_TOO_NEW)
    assert path.read_text() == case.text
