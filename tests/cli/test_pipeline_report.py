"""``parley pipeline report`` before there is anything to show."""

from pathlib import Path

from tests.cli.conftest import Parley


def test_without_a_lake_it_says_how_to_fill_one(parley: Parley, tmp_path: Path) -> None:
    answer = parley("pipeline", "report", "--lake", str(tmp_path / "none"), "--json")
    assert answer.code == 1
    assert answer.json["code"] == "LAKE_NOT_FOUND"
    assert not (tmp_path / "none").exists()
