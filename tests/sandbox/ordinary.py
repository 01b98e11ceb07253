"""Becomes an ordinary user and runs a module of the tests: ``python -m tests.sandbox.ordinary MODULE [ARGUMENT ...]``.

The interpreter may lie in a folder that only root can enter. In a mount namespace of its own, this process puts an
ordinary folder in the place of such a one, with the same things in it, so that the user has what a user would have.
"""

import os
import sys
from pathlib import Path

from parley.sandbox import system

UID = 54_321
REPOSITORY = Path(__file__).parents[2]


def needed() -> list[Path]:
    """What the user must be able to read to run this interpreter and these tests."""
    return [Path(sys.base_prefix), Path(sys.prefix), REPOSITORY]


def closed_folders() -> dict[Path, list[Path]]:
    """The topmost folders that an ordinary user cannot enter, each with what is needed below it."""
    found: dict[Path, list[Path]] = {}
    for path in needed():
        for folder in reversed(path.parents):
            if not folder.stat().st_mode & 0o001:
                found.setdefault(folder, []).append(path)
                break
    return found


def open_up(folder: Path, wanted: list[Path]) -> None:
    copies = [(path, system.clone_mount(str(path))) for path in wanted]
    system.mount("tmpfs", str(folder), "tmpfs", 0, "mode=755")
    for path, copy in copies:
        path.mkdir(parents=True, exist_ok=True)
        system.place_mount(copy, str(path))


def become_ordinary() -> None:
    """This process is an ordinary user's from now on."""
    system.unshare(system.CLONE_NEWNS)
    system.mount("none", "/", "", system.MS_REC | system.MS_PRIVATE)
    for folder, wanted in closed_folders().items():
        open_up(folder, wanted)
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    os.chdir(REPOSITORY)


def main() -> None:
    module, *arguments = sys.argv[1:]
    become_ordinary()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


if __name__ == "__main__":
    main()
