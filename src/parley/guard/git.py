"""What the guard asks git. Every path is relative to the top of the working tree, with plain slashes."""

import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parley.core.errors import GuardRefused

_NOTHING: Final = frozenset("0")
"""What an object's name is made of where there is no object."""
_DIFF: Final = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=none")
"""Without looking for renames a renamed file is one that went and one that came: both names count."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A working tree of a repository."""

    top: Path
    main: Path
    """The top of the main working tree; the same as ``top`` unless this is a linked one."""
    common: Path
    """Git's own folder, which all working trees share."""
    hooks: Path

    @property
    def owns_hooks(self) -> bool:
        """Whether the folder of hooks belongs to this repository alone, and not to everything on this machine."""
        hooks = self.hooks.resolve()
        return any(hooks.is_relative_to(folder) for folder in (self.common, self.top, self.main))


def find_repository(folder: Path) -> Repository | None:
    """The repository around a folder; None outside of one, in a bare one, or without git."""
    told = _git(folder, "rev-parse", "--show-toplevel", "--git-common-dir", "--git-path", "hooks")
    if told is None:
        return None
    top, common, hooks = told.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
    # Git runs hooks at the top of the working tree, and that is what a relative path in its config is relative to.
    root = Path(top)
    git_folder = (folder / common).resolve()
    main = git_folder.parent if git_folder.name == ".git" else root
    named = _git(root, "config", "--type=path", "--get", "core.hooksPath")
    place = root / os.fsdecode(named).rstrip("\n") if named else folder / hooks
    return Repository(root, main, git_folder, place)


def staged_paths(top: Path) -> list[str]:
    """What a commit would change. What a merge brings along unchanged from the other side is not counted."""
    staged = set(_paths(_must(top, "diff", "--cached", *_DIFF)))
    for merged in _merge_heads(top):
        staged &= set(_paths(_must(top, "diff", "--cached", *_DIFF, merged)))
    return sorted(staged)


def ref_lines(text: str) -> list[str]:
    """The lines that git hands a hook before a push."""
    return text.removesuffix("\n").split("\n")  # the name of a branch may hold what ``splitlines`` splits at


def pushed_paths(top: Path, remote: str, refs: Iterable[str]) -> list[str]:
    """What the commits change that a push brings to the other side. ``refs`` are the lines that git hands a hook."""
    found: set[str] = set()
    for line in refs:
        words = line.split(" ")  # the name of a branch may hold other blanks
        if len(words) != 4 or _is_nothing(words[1]):  # nothing is brought where a branch is deleted
            continue
        local, there = words[1], words[3]
        known = not _is_nothing(there) and _git(top, "cat-file", "-e", f"{there}^{{commit}}") is not None
        left_out = [f"^{there}"] if known else ["--not", f"--remotes={remote}"]
        # -c shows of a merge what differs from all of its sides.
        found |= set(_paths(_must(top, "log", "--format=", "-c", *_DIFF, local, *left_out)))
    return sorted(found)


def _merge_heads(top: Path) -> list[str]:
    place = _must(top, "rev-parse", "--git-path", "MERGE_HEAD").decode("utf-8", "surrogateescape").rstrip("\n")
    try:
        return (top / place).read_text(encoding="ascii").split()
    except FileNotFoundError:
        return []


def _is_nothing(name: str) -> bool:
    return frozenset(name) == _NOTHING


def _paths(output: bytes) -> list[str]:
    return [os.fsdecode(path.lstrip(b"\n")) for path in output.split(b"\0") if path.strip(b"\n")]


def _must(folder: Path, *arguments: str) -> bytes:
    output = _git(folder, *arguments)
    if output is None:
        raise GuardRefused(f"git {arguments[0]} failed in {folder}")
    return output


def _git(folder: Path, *arguments: str) -> bytes | None:
    argv: Sequence[str] = ("git", *arguments)
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
