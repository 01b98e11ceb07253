"""What ``parley doctor --repair`` says about a database that cannot be repaired."""

import subprocess
from pathlib import Path

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
