"""How full a disk is, and when somebody is told."""

from pathlib import Path

import pytest

from parley.serve.disk import FULL_BYTES, Disk, DiskWatch, Level, level_of, look_at_disk

LEAST = 100 * FULL_BYTES


@pytest.mark.parametrize(
    ("free", "before", "level"),
    [
        (LEAST, "ok", "ok"),
        (LEAST - 1, "ok", "low"),
        (LEAST, "low", "low"),
        (round(LEAST * 1.1) + 1, "low", "ok"),
        (FULL_BYTES, "ok", "low"),
        (FULL_BYTES - 1, "low", "full"),
        (FULL_BYTES, "full", "low"),
        (round(LEAST * 1.1) + 1, "full", "ok"),
    ],
)
def test_a_shortage_begins_at_the_least_and_is_over_with_some_more(free: int, before: Level, level: Level) -> None:
    assert level_of(free, LEAST, before) == level


def test_whoever_wants_no_warning_gets_none() -> None:
    assert level_of(0, 0) == "ok"


def test_a_watch_tells_of_a_change_once(tmp_path: Path) -> None:
    watch = DiskWatch(tmp_path, 0)
    assert (watch.look(), watch.seen.problems) == (False, [])
    watch.least_bytes = 2**62
    assert watch.now().level == "low"
    assert [watch.look(), watch.look()] == [True, False]
    (problem,) = watch.seen.problems
    assert "nearly full" in problem
    watch.least_bytes = 0
    assert (watch.look(), watch.seen.level) == (True, "ok")


def test_a_disk_has_a_free_share(tmp_path: Path) -> None:
    assert 0 <= look_at_disk(tmp_path).free_ratio <= 1
    assert Disk(0, 0).free_ratio == 0


def test_a_removed_folder_has_the_disk_that_it_was_on(tmp_path: Path) -> None:
    assert look_at_disk(tmp_path / "gone" / "folder").total_bytes == look_at_disk(tmp_path).total_bytes


def test_a_folder_that_cannot_be_seen_has_the_disk_that_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = DiskWatch(tmp_path, 0)
    before = watch.seen

    def closed(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", closed)
    assert watch.now() == before
    assert not watch.look()
