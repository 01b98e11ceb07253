"""Trust in a workspace's plugins: kept in the user's home, gone with the first change."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from parley.core.errors import ConfigInvalid, ServiceUnavailable
from parley.workspace.plugins import Measured
from parley.workspace.trust import TrustStore, changes, parley_home

ROOT = Path("/somewhere")
NOW = "2026-01-01T00:00:00.000Z"


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "home")


def test_nothing_is_trusted_at_first(store: TrustStore) -> None:
    assert not store.trusts(ROOT, "a")
    assert store.entries() == {}
    assert not store.path.exists()


def test_trust_holds_for_one_digest_of_one_workspace(store: TrustStore) -> None:
    store.trust(ROOT, Measured("a", {"parley.toml": "1"}), NOW)
    again = TrustStore(store.path.parent)
    assert again.trusts(ROOT, "a")
    assert not again.trusts(ROOT, "b")
    assert not again.trusts(ROOT / "else", "a")
    assert again.entries()[str(ROOT)].files == {"parley.toml": "1"}


def test_the_file_is_private_from_its_first_moment(store: TrustStore) -> None:
    store.trust(ROOT, Measured("a", {}), NOW)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


def test_trust_can_be_taken_away(store: TrustStore) -> None:
    store.trust(ROOT, Measured("a", {}), NOW)
    assert store.revoke(ROOT)
    assert not store.revoke(ROOT)
    assert not store.trusts(ROOT, "a")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"workspaces": {"/somewhere": 3}}', b"\xff"])
def test_a_damaged_file_trusts_nobody_and_is_not_overwritten(store: TrustStore, content: bytes) -> None:
    store.path.parent.mkdir()
    store.path.write_bytes(content)
    store.path.chmod(0o600)
    assert not store.trusts(ROOT, "a")
    for act in (store.entries, lambda: store.revoke(ROOT), lambda: store.trust(ROOT, Measured("a", {}), NOW)):
        with pytest.raises(ConfigInvalid, match=r"trust\.json is damaged"):
            act()
    assert store.path.read_bytes() == content


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_trusts_nobody(store: TrustStore, mode: int) -> None:
    store.trust(ROOT, Measured("a", {}), NOW)
    store.path.chmod(mode)
    assert not store.trusts(ROOT, "a")
    with pytest.raises(ConfigInvalid, match="can be written by somebody else"):
        store.entries()


def test_a_home_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ServiceUnavailable, match="cannot be written"):
        TrustStore(tmp_path / "file" / "home").trust(ROOT, Measured("a", {}), NOW)


def test_writers_at_the_same_time_lose_nothing(store: TrustStore) -> None:
    program = (
        "import sys; from pathlib import Path; from parley.workspace.trust import TrustStore;"
        "from parley.workspace.plugins import Measured\n"
        "store = TrustStore(Path(sys.argv[1]))\n"
        "for n in range(20): store.trust(Path(f'/{sys.argv[2]}/{n}'), Measured('d', {}), 'now')\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(store.path.parent), str(number)]) for number in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(store.entries()) == 60


def test_the_home_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARLEY_HOME", str(tmp_path))
    assert parley_home() == tmp_path
    monkeypatch.delenv("PARLEY_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parley_home() == tmp_path / ".parley"


def test_what_changed_is_told_by_file() -> None:
    before = {"parley.toml": "1", "a.py": "1", "gone.py": "1", "unreadable.py": "1"}
    now = {"parley.toml": "1", "a.py": "2", "new.py": "1", "unreadable.py": ""}
    assert changes(before, now) == ["a.py has changed", "gone.py is gone", "new.py is new", "unreadable.py is gone"]
    assert changes(now, now) == []
