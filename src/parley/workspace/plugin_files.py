"""Reading a plugin's module, which may have come with a cloned repository, into memory.

What a path leads to is not trusted for being named in ``parley.toml``: it must lie in the workspace, outside the state
folder, be a plain file or a folder of plain files, and be small. Reading never waits, whatever the file is. A folder
holds its files itself: by a link to another place of the workspace a plugin would see what is not its own.
"""

import keyword
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from parley.workspace.layout import Workspace

MODULE_BYTES_MAX: Final = 4 * 1024 * 1024
"""All files of a module together; they are held in memory and copied into each of its processes."""
MODULE_FILES_MAX: Final = 500
"""Files and folders together, so that a large tree which was named by mistake is not walked through to its end."""
_PACKAGE_FILE: Final = "__init__.py"


class UnusableModule(Exception):
    """Why a module cannot be read, in words that follow on the name of its plugin."""


def read_module(workspace: Workspace, module: str) -> Mapping[str, bytes]:
    """The module's files by their path from the folder that holds it. Raises ``UnusableModule``."""
    try:
        path = _inside(workspace, workspace.root / module, module)
        return _read(workspace, path, module)
    except FileNotFoundError:
        raise UnusableModule(f"{module} does not exist") from None
    except OSError as error:
        raise UnusableModule(f"{module} cannot be read: {error.strerror}") from error


def _read(workspace: Workspace, path: Path, module: str) -> Mapping[str, bytes]:
    name = Path(module).name
    files: dict[str, bytes] = {}
    if path.is_dir():
        _check_import_name(name, module)
        if not (path / _PACKAGE_FILE).exists():
            raise UnusableModule(f"{module} is a folder without {_PACKAGE_FILE}")
        sources = [(f"{name}/{found.relative_to(path)}", found) for found in _walk(path, module)]
    else:
        if not name.endswith(".py"):
            raise UnusableModule(f"{module} is neither a .py file nor a folder with {_PACKAGE_FILE}")
        _check_import_name(name.removesuffix(".py"), module)
        sources = [(name, path)]
    room = MODULE_BYTES_MAX
    for relative, source in sources:
        real = _inside(workspace, source, relative)
        if not real.is_relative_to(path):
            raise UnusableModule(f"{relative} leads out of its module, to {real}")
        files[relative] = _read_plain(real, relative, room)
        room -= len(files[relative])
    return files


def _inside(workspace: Workspace, path: Path, shown: str) -> Path:
    """Where the path really leads, if that is a place for a module."""
    try:
        real = path.resolve(strict=True)
    except RuntimeError:  # what a loop of links is in Python 3.11 and 3.12
        raise UnusableModule(f"{shown} is a link that leads to itself") from None
    if not real.is_relative_to(workspace.root):
        raise UnusableModule(f"{shown} leads out of the workspace, to {real}")
    if real.is_relative_to(workspace.state) or workspace.state.is_relative_to(real):
        raise UnusableModule(f"{shown} leads to the state folder, where no module can be")
    return real


def _walk(folder: Path, module: str) -> Iterator[Path]:
    """The files of a package in a stable order, without what is hidden or compiled."""
    waiting, count = [folder], 0
    while waiting:
        with os.scandir(waiting.pop()) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "__pycache__" or entry.name.endswith(".pyc"):
                continue
            count += 1
            if count > MODULE_FILES_MAX:
                raise UnusableModule(f"{module} has more than {MODULE_FILES_MAX} files")
            # Whoever is asked for trust reads these names: none may look like something else.
            if not entry.name.isprintable():
                raise UnusableModule(f"{module} has a file whose name cannot be shown: {entry.name!a}")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            else:
                yield Path(entry.path)


def _read_plain(path: Path, shown: str, room: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would wait for ever
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnusableModule(f"{shown} is not a plain file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(room + 1)
    finally:
        os.close(descriptor)
    if len(data) > room:
        raise UnusableModule(f"its module is larger than {MODULE_BYTES_MAX // 1024 // 1024} MiB")
    return data


def _check_import_name(name: str, module: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UnusableModule(f"{module} cannot be imported: {name} is not a name in Python")
    if name in sys.stdlib_module_names or name == "parley":
        raise UnusableModule(f"{module} has the name of a module that it may need itself; call it something else")
