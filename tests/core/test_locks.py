"""Whether a path still names the file that was opened there, and what to say if not."""

from pathlib import Path

from parley.core.locks import lost_file


def test_a_file_that_was_lost_is_told_by_what_is_there_now(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert lost_file(tmp_path / "file").details["reason"] == "replaced"
    assert lost_file(tmp_path / "gone").details["reason"] == "removed"
    assert lost_file(tmp_path / "file" / "below").details["reason"] == "removed"


def test_a_folder_that_cannot_be_entered_has_lost_nothing_for_certain(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    lost = lost_file(tmp_path / "loop" / "db.sqlite3")
    assert lost.details["reason"] == "out of reach"
    assert "cannot be reached any more" in lost.message
