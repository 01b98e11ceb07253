"""The folder: keys that nobody else can read, are whole, and are never written over."""

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from parley.bus.home import BusHome, bus_home, check_folder, locked, make_key, read_key, read_private
from parley.core.bus_errors import FileDamaged, FileUnsafe
from tests.bus import killed


@pytest.fixture
def home(tmp_path: Path) -> BusHome:
    made = BusHome(tmp_path / "parley" / "bus")
    with locked(made):
        pass
    return made


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_the_environment_names_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert bus_home().root == tmp_path / ".parley" / "bus"
    monkeypatch.setenv("PARLEY_BUS_HOME", str(tmp_path / "elsewhere"))
    assert bus_home().root == tmp_path / "elsewhere"


def test_files_and_folder_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        home = BusHome(tmp_path / "bus")
        with locked(home):
            assert make_key(home.user_key)
    finally:
        os.umask(before)
    assert (mode_of(home.root), mode_of(home.user_key), mode_of(home.lock)) == (0o700, 0o600, 0o600)


def test_a_key_is_read_again_and_never_replaced(home: BusHome) -> None:
    assert read_key(home.user_key) is None
    assert make_key(home.user_key)
    seed = read_key(home.user_key)
    assert seed is not None
    assert not make_key(home.user_key)
    assert read_key(home.user_key) == seed
    assert home.user_key.read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----")


def test_what_is_in_the_way_of_a_key_is_left_alone(home: BusHome, tmp_path: Path) -> None:
    """A link that leads nowhere must not have a key written through it."""
    home.user_key.symlink_to(tmp_path / "stolen")
    assert not make_key(home.user_key)
    assert not (tmp_path / "stolen").exists()
    with pytest.raises(FileUnsafe):
        read_key(home.user_key)


def test_a_link_to_a_good_key_is_refused(home: BusHome, tmp_path: Path) -> None:
    make_key(home.user_key)
    home.user_key.rename(tmp_path / "moved")
    home.user_key.symlink_to(tmp_path / "moved")
    with pytest.raises(FileUnsafe, match="not a file of its own"):
        read_key(home.user_key)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602, 0o610])
def test_a_key_that_others_can_use_is_refused(home: BusHome, mode: int) -> None:
    make_key(home.user_key)
    home.user_key.chmod(mode)
    with pytest.raises(FileUnsafe) as refusal:
        read_key(home.user_key)
    assert refusal.value.details["mode"] == f"{mode:04o}"
    assert mode_of(home.user_key) == mode, "who could read it may have; that is not mended in silence"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_key_of_somebody_else_is_refused(home: BusHome) -> None:
    make_key(home.user_key)
    os.chown(home.user_key, 12345, 12345)
    with pytest.raises(FileUnsafe, match="belongs to another user"):
        read_key(home.user_key)


def test_a_folder_in_which_others_may_write_is_refused(home: BusHome) -> None:
    home.root.chmod(0o755)
    check_folder(home)
    home.root.chmod(0o770)
    with pytest.raises(FileUnsafe), locked(home):
        pass
    with pytest.raises(FileUnsafe):
        check_folder(home)


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bus").touch()
    with pytest.raises(FileUnsafe, match="no folder"), locked(BusHome(tmp_path / "bus")):
        pass


def test_what_is_no_file_is_refused_and_waits_for_nobody(home: BusHome) -> None:
    os.mkfifo(home.grant, 0o600)
    home.agent_key.mkdir(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.revocations))
        for path in (home.grant, home.agent_key, home.revocations):
            with pytest.raises(FileUnsafe):
                read_private(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a key",
        b"-----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----\n",
        b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        bytes(range(256)),
    ],
    ids=["empty", "text", "cut off", "encrypted", "bytes"],
)
def test_a_damaged_key_is_refused_and_left_alone(home: BusHome, data: bytes) -> None:
    home.user_key.write_bytes(data)
    home.user_key.chmod(0o600)
    with pytest.raises(FileDamaged):
        read_key(home.user_key)
    assert not make_key(home.user_key)
    assert home.user_key.read_bytes() == data


def test_a_key_of_another_kind_is_refused(home: BusHome) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    other = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    home.user_key.write_bytes(other)
    home.user_key.chmod(0o600)
    with pytest.raises(FileDamaged, match="ed25519"):
        read_key(home.user_key)


def test_what_a_killed_process_left_of_a_key_is_removed_with_the_next_one(home: BusHome) -> None:
    """It was killed between giving the key its name and taking the first one away."""
    make_key(home.user_key)
    left = home.root / f".{home.user_key.name}.0123456789abcdef.tmp"
    os.link(home.user_key, left)
    assert not make_key(home.user_key)
    assert not left.exists()
    assert read_key(home.user_key) is not None


def test_no_other_file_is_left_behind(home: BusHome) -> None:
    make_key(home.user_key)
    make_key(home.user_key)
    assert sorted(each.name for each in home.root.iterdir()) == ["lock", "user.key"]


def test_a_file_without_end_is_not_read_to_its_end(home: BusHome) -> None:
    with home.revocations.open("wb") as file:
        file.truncate(1 << 40)
    home.revocations.chmod(0o600)
    with pytest.raises(FileDamaged, match="larger"):
        read_private(home.revocations)


def kill_commands(*words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", killed.__name__, *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


def test_a_command_that_is_killed_before_any_of_its_steps_loses_nothing(tmp_path: Path) -> None:
    ran = kill_commands(tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    kills = json.loads(ran.stdout)
    assert kills.keys() == {"keygen", "revoke", "revoke --all", "accept"}
    assert min(kills.values()) >= 6


def test_control_files_that_were_written_in_place_would_be_lost(tmp_path: Path) -> None:
    ran = kill_commands(tmp_path, "torn")
    assert ran.returncode == 1
    assert "FileDamaged" in ran.stderr
