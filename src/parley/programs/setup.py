"""Setting an agent program up, checking it, and taking it back.

First every file is read and changed in memory; one that cannot be understood stops everything before anything is
touched. Then what was there before is remembered, and only then are the files replaced, each as a whole, in its mode
and through its links. A file that somebody else changed in the meantime is left alone.
"""

import difflib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple

from parley.core.errors import SetupRefused
from parley.core.files import write_atomic
from parley.programs.catalogue import PROGRAMS, Part, Place, Program, ProgramFile
from parley.programs.json_file import Facts
from parley.programs.jsonc import NotJson
from parley.programs.record import Before, Record
from parley.programs.section import NotASection
from parley.programs.toml_file import NotToml

Action = Literal["install", "remove"]
State = Literal["ok", "missing", "drifted"]

_BY_PATH: Final = re.compile(rb"/parley(?=[\"' ])")
"""Where a command, in a text of JSON or TOML or inside a hook's, is called by its path."""
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_MODES: Final = {"project": 0o644, "user": 0o600}
"""A new file of a project is for everybody who works on it; one in a home may get secrets beside ours."""


class Planned(NamedTuple):
    """One file: what it is, and what it is to become. None means that there is no file."""

    path: Path
    """As the program names it."""
    real: Path
    """Where links lead."""
    parts: tuple[Part, ...]
    before: bytes | None
    after: bytes | None
    state: State
    facts: Facts

    @property
    def changes(self) -> bool:
        return self.before != self.after

    @property
    def gives_up_path(self) -> bool:
        """Whether parley is called by a path in what the file is, and no longer in what it is to become."""
        was, becomes = (len(_BY_PATH.findall(data or b"")) for data in (self.before, self.after))
        return was > becomes

    def diff(self) -> str:
        """What would change, as a unified diff."""
        # Line feeds alone end lines: a text in JSON may hold what ``splitlines`` takes for another end.
        old, new = (_LINES.findall((data or b"").decode("utf-8")) for data in (self.before, self.after))
        name = str(self.path)
        sides = ("/dev/null" if self.before is None else name, "/dev/null" if self.after is None else name)
        lines = difflib.unified_diff(old, new, *sides, n=2)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def plan(program: Program, place: Place, action: Action, known: dict[str, Before]) -> list[Planned]:
    """What has to happen to each file of the program. Raises ``SetupRefused``; touches nothing."""
    files = program.files(place)
    if action == "remove":
        shared = _used_by_others(program, place)
        files = [file for file in files if file.path not in shared]
    return [_plan_file(file, action, known) for file in files]


def apply(planned: Iterable[Planned], place: Place, record: Record) -> None:
    """Writes what was planned. Raises ``SetupRefused`` for a file that is no longer as it was read."""
    todo = [each for each in planned if each.changes]
    known = record.read()
    for each in todo:
        if each.after is not None:
            folders = [str(folder) for folder in _missing_folders(each.real)]
            folders = folders or (known[str(each.real)].folders if str(each.real) in known else [])
            known[str(each.real)] = Before(each.facts, folders)
    record.write(known)
    for each in todo:
        if _read(each.real) != each.before:
            raise SetupRefused(f"{each.path} was changed meanwhile", path=str(each.path))
        if each.after is None:
            each.real.unlink()
        else:
            each.real.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(each.real, each.after, _mode(each.real, place))


def forget(planned: Iterable[Planned], record: Record) -> None:
    """After a removal: the folders that were made go if they are empty, and what was remembered goes too."""
    known = record.read()
    for each in planned:
        before = known.pop(str(each.real), None)
        for folder in reversed(before.folders if before is not None else []):
            try:
                Path(folder).rmdir()
            except OSError:  # somebody has put something into it
                break
    record.write(known)


def _plan_file(file: ProgramFile, action: Action, known: dict[str, Before]) -> Planned:
    real = _real(file.path)
    data = _read(real)
    text = _text(file.path, data)
    before = known.get(str(real))
    try:
        without = None if text is None else file.edit.remove(text, _facts(before), recorded=before is not None)
        there = text is not None and without != text
        facts = _facts(before) if there else {}
        wanted = file.edit.install(text, facts)
    except (NotJson, NotToml, NotASection) as error:
        raise SetupRefused(f"{file.path} cannot be changed safely: {error}", path=str(file.path)) from error
    state: State = "ok" if wanted == text else "drifted" if there else "missing"
    after = wanted if action == "install" else without
    return Planned(file.path, real, file.parts, data, None if after is None else after.encode(), state, facts)


def _facts(before: Before | None) -> Facts:
    return {} if before is None else dict(before.facts)


def _used_by_others(program: Program, place: Place) -> set[Path]:
    """Primer files that another program here, which is set up, reads too."""
    shared: set[Path] = set()
    for other in PROGRAMS.values():
        if other.name == program.name:
            continue
        files = other.files(place)
        if any(_is_there(file) for file in files if "tools" in file.parts):
            shared |= {file.path for file in files if file.parts == ("primer",)}
    return shared


def _is_there(file: ProgramFile) -> bool:
    try:
        text = _text(file.path, _read(_real(file.path)))
        return text is not None and file.edit.remove(text, {}, recorded=False) != text
    except (SetupRefused, NotJson, NotToml, NotASection):
        return False


def _real(path: Path) -> Path:
    """Where links lead."""
    try:
        return path.resolve()
    except RuntimeError as error:  # from Python 3.13 on, reading such a path fails instead
        raise SetupRefused(f"{path} cannot be read: its links lead in a circle", path=str(path)) from error


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SetupRefused(f"{path} cannot be read: {error.strerror}", path=str(path)) from error


def _text(path: Path, data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise SetupRefused(f"{path} is not text in UTF-8", path=str(path)) from None


def _missing_folders(path: Path) -> list[Path]:
    return [folder for folder in reversed(path.parents) if not folder.exists()]


def _mode(path: Path, place: Place) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return _MODES[place.scope] & ~_umask()


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
