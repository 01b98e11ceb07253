"""Files that matter are never half there."""

import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from parley.core.files import create_private, write_atomic, write_new


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_written_as_a_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    write_atomic(path, b"first")
    write_atomic(path, b"second")
    assert path.read_bytes() == b"second"
    assert mode(path) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["server.json"]


def test_the_mode_is_the_one_asked_for_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        write_atomic(tmp_path / "public", b"", mode=0o644)
    finally:
        os.umask(umask)
    assert mode(tmp_path / "public") == 0o644


def test_a_failed_replacement_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.mkdir()
    target.joinpath("inside").write_text("kept")
    with pytest.raises(OSError):
        write_atomic(target, b"data")
    assert target.joinpath("inside").read_text() == "kept"
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("write", [write_atomic, write_new])
def test_a_file_for_which_there_is_no_room_is_named(tmp_path: Path, write: Callable[[Path, bytes], None]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(OSError) as failed:
            write(tmp_path / "grant", bytes(2_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failed.value.filename == str(tmp_path / "grant")
    assert not list(tmp_path.iterdir())


def test_a_private_file_never_takes_over_one_that_is_there(tmp_path: Path) -> None:
    tmp_path.joinpath("planted").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        create_private(tmp_path / "planted")
    assert not tmp_path.joinpath("elsewhere").exists()


def test_a_new_file_is_whole_private_and_alone(tmp_path: Path) -> None:
    write_new(tmp_path / "key", b"secret")
    assert tmp_path.joinpath("key").read_bytes() == b"secret"
    assert (mode(tmp_path / "key"), tmp_path.joinpath("key").stat().st_nlink) == (0o600, 1)
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_a_new_file_never_takes_the_place_of_another(tmp_path: Path) -> None:
    tmp_path.joinpath("key").write_bytes(b"old")
    tmp_path.joinpath("planted").symlink_to(tmp_path / "elsewhere")
    for name in ("key", "planted"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, b"new")
    assert tmp_path.joinpath("key").read_bytes() == b"old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["key", "planted"]
