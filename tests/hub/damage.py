"""Damage to a database file as a bad disk does it: behind the back of whoever has it open."""

import subprocess
import sys
from pathlib import Path

from parley.sqlite import checkpoint_once, close_quietly, open_writer

PAGE_BYTES = 4_096
_OVERWRITE = """
import os, sys
path, first = sys.argv[1], int(sys.argv[2])
with open(path, "r+b") as file:
    for page in range(first, os.path.getsize(path) // 4096):
        file.seek(page * 4096)
        file.write(b"\\xff" * 64)
"""


def damage_file(path: Path, share_kept: float = 0.25) -> None:
    """Overwrites the head of every page after the first share of the file, which holds the schema and the first rows.

    Another process does it: closing the file here would end the locks that SQLite holds for this one.
    """
    connection = open_writer(path)
    try:
        assert checkpoint_once(connection, "truncate").complete
    finally:
        close_quietly(connection)
    first = max(1, int(path.stat().st_size * share_kept) // PAGE_BYTES)
    subprocess.run([sys.executable, "-I", "-c", _OVERWRITE, str(path), str(first)], check=True)
