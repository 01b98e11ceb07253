"""Lines of ours in a repository's hooks, beside whatever is there.

A hook that is a shell script gets a few lines after its first one; taking them out gives back what was there. A hook in
any other form (another language, a link, one that is switched off) is set aside under another name, called by a
hook of ours, and put back when that goes. A hook that is not there is made, and removed again.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final, Literal, NamedTuple

from parley.core.errors import GuardRefused
from parley.core.exits import Exit
from parley.core.files import write_atomic

HookName = Literal["pre-commit", "pre-push"]
State = Literal["installed", "missing", "drifted"]
NAMES: Final[tuple[HookName, ...]] = ("pre-commit", "pre-push")

_BEGIN: Final = b"# parley:begin\n"
_END: Final = b"# parley:end\n"
_KEPT: Final = ".before-parley"
_SHELL: Final = re.compile(rb"#!\s*\S*?(?:/|env\s+|env\s+-S\s*)(?:ba|da|k|z|a)?sh(?:\s[^\n]*)?\n")
_OWN_FIRST_LINE: Final = b"#!/bin/sh\n"
_EXECUTABLE: Final = 0o755
_CHECK: Final = """\
if command -v parley >/dev/null 2>&1; then
  {call} || [ $? -ne {blocked} ] || exit 1
else
  echo "parley is not on the PATH, so leases were not checked." >&2
fi
"""
_READ_REFS: Final = "parley_refs=$(cat)\n"
_GIVE_REFS_BACK: Final = """\
if [ -n "$parley_refs" ]; then
exec <<PARLEY
$parley_refs
PARLEY
else
exec </dev/null
fi
"""
_CALL_KEPT: Final = """\
parley_kept="$(dirname "$0")/{kept}"
if [ -x "$parley_kept" ]; then exec "$parley_kept" "$@"; fi
"""
_CALLS: Final[dict[HookName, str]] = {
    "pre-commit": "parley guard check pre-commit",
    "pre-push": 'printf \'%s\\n\' "$parley_refs" | parley guard check pre-push "$@"',
}


class Hook(NamedTuple):
    """One hook of a repository."""

    name: HookName
    path: Path
    state: State
    chained: bool
    """Whether somebody else's hook runs, too."""


def inspect(folder: Path, name: HookName) -> Hook:
    """How a hook stands."""
    path = folder / name
    data = _read(path)
    chained = os.path.lexists(_kept(path)) or (data is not None and _without(data).strip() not in (b"", b"#!/bin/sh"))
    if data is None or _BEGIN not in data:
        return Hook(name, path, "missing", chained)
    right = _block(name, with_kept=os.path.lexists(_kept(path))) in data and bool(path.stat().st_mode & stat.S_IXUSR)
    return Hook(name, path, "installed" if right else "drifted", chained)


def install(folder: Path, name: HookName) -> bool:
    """Puts our lines into the hook; returns whether anything changed. Raises ``GuardRefused``."""
    path = folder / name
    if inspect(folder, name).state == "installed":
        return False
    folder.mkdir(parents=True, exist_ok=True)
    data = _read(path)
    if data is not None and _BEGIN in data:  # ours, in an older form
        start, end = _place(path, data)
        block = _block(name, with_kept=os.path.lexists(_kept(path)))
        write_atomic(path, data[:start] + block + data[end:], _mode(path) | stat.S_IXUSR)
        return True
    if data is not None and not _can_take_lines(path, data):
        _set_aside(path)
        data = None
    with_kept = data is None and os.path.lexists(_kept(path))
    block = _block(name, with_kept=with_kept)
    if data is None:
        write_atomic(path, _OWN_FIRST_LINE + block, _EXECUTABLE)
    else:
        first = data.index(b"\n") + 1
        write_atomic(path, data[:first] + block + data[first:], _mode(path))
    return True


def uninstall(folder: Path, name: HookName) -> bool:
    """Takes our lines out and puts back what was set aside; returns whether anything changed."""
    path = folder / name
    data = _read(path)
    if data is None or _BEGIN not in data:
        return False
    start, end = _place(path, data)
    rest = data[:start] + data[end:]
    kept = _kept(path)
    if os.path.lexists(kept):
        if rest != _OWN_FIRST_LINE:
            raise GuardRefused(f"{path} was changed since; the hook from before is {kept}", path=str(path))
        kept.rename(path)
    elif rest == _OWN_FIRST_LINE:
        path.unlink()
    else:
        write_atomic(path, rest, _mode(path))
    return True


def _block(name: HookName, *, with_kept: bool) -> bytes:
    parts = [_CHECK.format(call=_CALLS[name], blocked=int(Exit.CONFLICT))]
    if name == "pre-push":
        parts = [_READ_REFS, *parts, _GIVE_REFS_BACK]
    if with_kept:
        parts.append(_CALL_KEPT.format(kept=name + _KEPT))
    return _BEGIN + "".join(parts).encode() + _END


def _can_take_lines(path: Path, data: bytes) -> bool:
    """Whether it is a shell script that git runs as it is, and a file of its own."""
    is_switched_on = bool(path.stat().st_mode & stat.S_IXUSR)
    return not path.is_symlink() and is_switched_on and _SHELL.match(data) is not None and b"\r\n" not in data


def _set_aside(path: Path) -> None:
    kept = _kept(path)
    if os.path.lexists(kept):
        raise GuardRefused(f"{kept} is in the way; it was set aside earlier", path=str(kept))
    path.rename(kept)


def _kept(path: Path) -> Path:
    return path.with_name(path.name + _KEPT)


def _place(path: Path, data: bytes) -> tuple[int, int]:
    start, end = data.find(_BEGIN), data.find(_END)
    if end < start or data.count(_BEGIN) != 1 or data.count(_END) != 1:
        raise GuardRefused(f"The lines of Parley in {path} were changed by hand", path=str(path))
    return start, end + len(_END)


def _without(data: bytes) -> bytes:
    start, end = data.find(_BEGIN), data.find(_END)
    return data if start < 0 or end < start else data[:start] + data[end + len(_END) :]


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b"" if path.is_symlink() else None  # a link that leads nowhere is somebody's all the same
    except (IsADirectoryError, PermissionError) as error:
        raise GuardRefused(f"{path} cannot be read: {error.strerror}", path=str(path)) from error


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
