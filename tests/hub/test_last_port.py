"""The port of the last hub: preferred by the next one, and never a reason not to start."""

import stat
from pathlib import Path

import pytest

from parley.hub.last_port import recall_port, remember_port


def test_a_port_is_recalled_as_it_was_remembered(tmp_path: Path) -> None:
    path = tmp_path / "last_port"
    assert recall_port(path) == 0
    assert remember_port(path, 40_123) is None
    assert recall_port(path) == 40_123
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_port_that_is_remembered_already_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "last_port"
    remember_port(path, 40_123)
    before = path.stat().st_ino
    assert remember_port(path, 40_123) is None
    assert path.stat().st_ino == before


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"0", b"80", b"1023", b"65536", b"-1", b"4e4", b"9" * 5_000, b"\xff\xfe", "٤٠٠٠٠".encode()]
)
def test_what_is_no_port_of_an_ordinary_user_is_as_good_as_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "last_port"
    path.write_bytes(content)
    assert recall_port(path) == 0


def test_a_file_that_cannot_be_written_or_read_is_said_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "last_port"
    assert "No such file" in (remember_port(path, 40_123) or "")
    (tmp_path / "folder").mkdir()
    assert recall_port(tmp_path / "folder") == 0
