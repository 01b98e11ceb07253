"""What ``parley doctor --repair`` says about a database that cannot be repaired, or that is not its own."""

import subprocess
from pathlib import Path

import apsw
import pytest

from tests.cli.conftest import Parley


def test_the_printed_restore_command_works_in_a_folder_whose_name_needs_quoting(parley: Parley, tmp_path: Path) -> None:
    folder = tmp_path / "it's a; folder"
    assert parley("init", folder).code == 0
    assert parley("backup", "-w", folder).code == 0
    database = folder / ".parley" / "db.sqlite3"
    sound = database.read_bytes()
    database.write_bytes(sound[:4096] + b"\xde\xad" * ((len(sound) - 4096) // 2))
    repaired = parley("doctor", "--repair", "-w", folder)
    assert repaired.code == 21
    [line] = [line for line in repaired.stdout.splitlines() if "To restore the newest sound backup: " in line]
    subprocess.run(line.split("backup: ", 1)[1], shell=True, check=True, timeout=30)
    assert parley("doctor", "-w", folder).code == 0


def make_newer(parley: Parley, folder: Path, mode: str = "wal") -> Path:
    """A workspace whose database says that a newer Parley wrote it, with a log if it has one."""
    assert parley("init", folder).code == 0
    database = folder / ".parley" / "db.sqlite3"
    connection = apsw.Connection(str(database))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.execute(f"PRAGMA journal_mode={mode}").fetchall()
    connection.execute("UPDATE meta SET value = '99' WHERE key = 'parley_schema'")
    connection.close()
    return database


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize(
    "words",
    [
        *(["doctor"], ["doctor", "--repair"], ["doctor", "--checkpoint"], ["archive", "--before", "2099-01-01"]),
        *(["up"], ["up", "--detach"]),
    ],
)
def test_h5_a_database_of_a_newer_schema_is_never_written(
    parley: Parley, tmp_path: Path, words: list[str], mode: str
) -> None:
    database = make_newer(parley, tmp_path, mode)
    log = database.with_name("db.sqlite3-wal")
    assert log.exists() == (mode == "wal")
    before = [path.read_bytes() for path in (database, log) if path.exists()]
    result = parley(*words, "-w", tmp_path, "--json")
    assert [path.read_bytes() for path in (database, log) if path.exists()] == before
    assert result.code == 20
    assert "schema version 99" in result.stdout + result.stderr


def test_h5_a_repair_leaves_alone_what_is_no_workspace_of_ours(parley: Parley, tmp_path: Path) -> None:
    database = make_newer(parley, tmp_path)
    database.unlink()
    connection = apsw.Connection(str(database))
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    before = database.read_bytes()
    result = parley("doctor", "--repair", "-w", tmp_path, "--json")
    assert database.read_bytes() == before
    assert any("Left the database as it is" in line for line in result.json["repairs"])


def test_h12_doctor_names_only_commands_that_exist(parley: Parley, tmp_path: Path) -> None:
    assert parley("init", tmp_path).code == 0
    connection = apsw.Connection(str(tmp_path / ".parley" / "db.sqlite3"))
    connection.execute("PRAGMA foreign_keys=0").fetchall()
    connection.execute("INSERT INTO topics VALUES ('topic_1', 'ch_gone', 'lost', '', '')")
    connection.close()
    checks = parley("doctor", "-w", tmp_path, "--json").json["checks"]
    (fix,) = [check["fix"] for check in checks if check["name"] == "foreign_keys"]
    assert "import" not in fix
    assert parley("export", "-w", tmp_path).code == 0
