"""Commands that are run by an ordinary user, since root may write whatever its mode says."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.sandbox.ordinary import REPOSITORY, UID

SECONDS = 120.0


class Ordinary:
    """A user with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uid = UID if os.getuid() == 0 else os.getuid()

    def parley(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Runs a command; its exit code, and what it printed."""
        environment = {**os.environ, "HOME": str(self.folder), "PARLEY_DAEMON_HOME": str(self.folder / "daemon")}
        environment.pop("CI", None)
        module = ["tests.sandbox.ordinary", "parley"] if os.getuid() == 0 else ["parley"]
        done = subprocess.run(
            [sys.executable, "-m", *module, *words, "--json"],
            capture_output=True,
            text=True,
            env=environment,
            cwd=REPOSITORY,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, json.loads(done.stdout or done.stderr.splitlines()[-1])


@contextmanager
def ordinary_user() -> Iterator[Ordinary]:
    """The user; the folder is gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="parley-user-"))
    if os.getuid() == 0:
        os.chown(folder, UID, UID)
    try:
        yield Ordinary(folder)
    finally:
        for place in folder.rglob("*"):
            if place.is_dir() and not place.is_symlink():
                place.chmod(0o700)
        shutil.rmtree(folder)
