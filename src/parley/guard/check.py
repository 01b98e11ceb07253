"""Whose leases are in the way of what git is about to do, and what follows from that.

Leases are kept by workspaces, and a path belongs to the nearest workspace above it inside its repository; in a linked
working tree, also to the one at the same place in the main one. A repository without a workspace has no leases. Only
exclusive leases of others count: a shared one says that others may work there, and one's own is what it is for.

Git's paths are in the form in which leases name them, relative and with plain slashes, and are compared as they are: no
lease can name a file with a backslash or a line break in its name, but one of its whole folder covers that, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from parley.core.clock import Clock, iso
from parley.core.errors import ConfigInvalid, ParleyError
from parley.guard.git import Repository
from parley.wire.entities import LeaseHit
from parley.workspace import discovery
from parley.workspace.config import load_settings
from parley.workspace.layout import Workspace
from parley.workspace.queries.leases import leases_in_the_way
from parley.workspace.reading import open_reading

Mode = Literal["warn", "block", "off"]
BYPASS_VARIABLE: Final = "PARLEY_GUARD"
BYPASS_VALUE: Final = "off"


@dataclass(slots=True)
class Finding:
    """What was found in one workspace."""

    workspace: Workspace
    agent: str
    mode: Mode
    hits: list[LeaseHit] = field(default_factory=list[LeaseHit])
    notes: list[str] = field(default_factory=list[str])

    @property
    def blocks(self) -> bool:
        return self.mode == "block" and bool(self.hits)


def is_bypassed(environment: Mapping[str, str]) -> bool:
    """Whether the user lets this one through knowingly."""
    return environment.get(BYPASS_VARIABLE, "").strip().lower() == BYPASS_VALUE


def check(repository: Repository, paths: Iterable[str], clock: Clock) -> list[Finding]:
    """What is in the way, for each workspace that has any of these paths. Never raises for what a workspace is like."""
    places = _Places(repository)
    by_workspace: dict[Path, tuple[Workspace, list[str]]] = {}
    for path in paths:
        found = places.workspace_of(PurePosixPath(path))
        if found is not None:
            workspace, inside = found
            by_workspace.setdefault(workspace.root, (workspace, []))[1].append(inside)
    return [_check_one(workspace, inside, clock) for workspace, inside in by_workspace.values()]


def contains_workspace(repository: Repository, folder: Path) -> bool:
    """Whether the guard has anything to do in the repository: a workspace at its top, or around this folder in it."""
    if _Places(repository).workspace_of(PurePosixPath("any")) is not None:
        return True
    try:
        root = discovery.discover(folder).root
    except ParleyError:
        return False
    return any(root.is_relative_to(top) for top in (repository.top, repository.main))


def shown(path: str) -> str:
    """A path as it is told: on one line, with quotes and escapes where its name has what cannot be printed."""
    return path if path.isprintable() else repr(path)


def _check_one(workspace: Workspace, paths: list[str], clock: Clock) -> Finding:
    from parley.client.identity import whoami

    notes: list[str] = []
    try:
        mode: Mode = load_settings(workspace.config).guard.mode
    except ConfigInvalid as error:
        mode = "warn"
        notes.append(f"{workspace.config.name} cannot be read, so the guard only warns: {error}")
    finding = Finding(workspace, whoami(workspace).name, mode, notes=notes)
    if mode == "off":
        return finding
    try:
        with open_reading(workspace) as reading:
            finding.hits += leases_in_the_way(
                reading.connection,
                now=iso(clock.now_ms()),
                holder=finding.agent,
                paths=paths,
                mode="shared",
            )
    except (ParleyError, OSError) as error:
        notes.append(f"The leases of {workspace.root} were not checked: {error}")
    return finding


class _Places:
    """Where the workspaces of a repository are; each folder is looked at once."""

    def __init__(self, repository: Repository) -> None:
        self._tops = tuple(dict.fromkeys((repository.top, repository.main)))
        self._known: dict[PurePosixPath, Workspace | None] = {}

    def workspace_of(self, path: PurePosixPath) -> tuple[Workspace, str] | None:
        """The nearest workspace above a path, and the path as seen from there."""
        for folder in path.parents:
            workspace = self._in(folder)
            if workspace is not None:
                return workspace, str(path.relative_to(folder))
        return None

    def _in(self, folder: PurePosixPath) -> Workspace | None:
        if folder not in self._known:
            self._known[folder] = next(filter(None, (_at(top / folder) for top in self._tops)), None)
        return self._known[folder]


def _at(folder: Path) -> Workspace | None:
    """The workspace in this folder, if it has a database; one that cannot be trusted is none."""
    try:
        workspace = discovery.at(folder)
    except (ParleyError, OSError):
        return None
    return workspace if workspace.db.is_file() else None
