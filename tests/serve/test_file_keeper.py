"""Files that a server can write again, and what it says about them."""

from pathlib import Path

import pytest
import structlog
from structlog.testing import LogCapture

from parley.core.errors import FilesLost
from parley.core.held_files import HeldFiles
from parley.serve.file_keeper import FileKeeper, KeptFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "server.json"


def kept(path: Path, *, wanted: bool = True, stays: bool = False) -> KeptFile:
    path.parent.mkdir(exist_ok=True)
    file = KeptFile(path, lambda: path.write_text("content"), wanted=lambda: wanted, stays=stays)
    if wanted:
        file.write()
    return file


def test_a_file_in_place_is_left_alone(path: Path) -> None:
    file = kept(path)
    assert [file.look() for _ in range(3)] == [None] * 3


def test_a_file_that_is_gone_or_empty_is_written_again_and_told_of_each_time(path: Path) -> None:
    file = kept(path)
    for spoil in (path.unlink, lambda: path.write_text("")):
        spoil()
        assert "was written again" in (file.look() or "")
        assert path.read_text() == "content"
        assert file.look() is None


def test_what_somebody_else_puts_there_stays(path: Path) -> None:
    file = kept(path)
    path.write_text("another")
    assert file.look() is None
    assert path.read_text() == "another"


def test_a_file_that_cannot_be_written_is_told_of_once(path: Path) -> None:
    file = kept(path)
    path.unlink()
    path.parent.rmdir()
    assert "cannot be written again" in (file.look() or "")
    assert file.look() is None
    path.parent.mkdir()
    assert "was written again" in (file.look() or "")


def test_what_is_not_wanted_is_not_made(path: Path) -> None:
    assert kept(path, wanted=False).look() is None
    assert not path.exists()


@pytest.mark.parametrize("stays", [True, False])
def test_at_its_end_a_keeper_writes_again_what_stays(path: Path, stays: bool) -> None:
    keeper = FileKeeper(None, structlog.get_logger(), lambda lost: None)
    keeper.keep(kept(path, stays=stays))
    path.unlink()
    keeper.look_last()
    assert path.exists() == stays


def test_a_keeper_ends_when_what_is_held_is_lost(tmp_path: Path, path: Path) -> None:
    log, told = LogCapture(), list[FilesLost]()
    logger = structlog.wrap_logger(None, processors=[log], wrapper_class=structlog.make_filtering_bound_logger(0))
    with HeldFiles(tmp_path / "hub.lock") as held:
        held.acquire({"pid": 1})
        keeper = FileKeeper(held, logger, told.append)
        keeper.keep(kept(path))
        path.unlink()
        assert keeper.look()
        (warning,) = log.entries
        assert (warning["event"], warning["path"]) == ("file_gone", str(path))
        assert str(path) not in warning["problem"], "it is named once"
        (tmp_path / "hub.lock").unlink()
        assert not keeper.look()
    assert [lost.details["reason"] for lost in told] == ["removed"]
