"""Finding the workspace that a command or a program stands in.

From the starting folder the search goes up to the nearest folder with a database of ours, ``.parley`` before
``.agentlip``. It looks neither above the user's home (for a start outside it, it goes up to the root) nor on another
device: what lies there belongs to somebody else.

A workspace may have come with a cloned repository or lie in a shared folder, so what is found is not trusted for being
found: the state folder must belong to the user who asks, and neither it nor anything directly in it may be a link out.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from parley.core.errors import WorkspaceNotFound, WorkspaceUnsafe
from parley.workspace.layout import ADOPTED_NAME, DATABASE_NAME, STATE_NAME, Workspace

VARIABLE: Final = "PARLEY_WORKSPACE"
FOREIGN_CONFIG: Final = "agentlip.config.ts"
FOLDER_MODE: Final = 0o700


def discover(start: Path | None = None) -> Workspace:
    """The workspace around ``start``; without one, that of ``PARLEY_WORKSPACE``, else that around the current folder.

    Raises ``WorkspaceNotFound``, or ``WorkspaceUnsafe`` when the nearest one cannot be trusted.
    """
    if start is None:
        named = os.environ.get(VARIABLE)
        if named:
            return at(Path(named))
    origin = (start if start is not None else here()).resolve()
    for folder in _upwards(origin):
        state = _state_with_database(folder)
        if state is not None:
            return _trusted(folder, state)
    raise WorkspaceNotFound(f"No workspace was found in {origin} or above", start=str(origin))


def here() -> Path:
    """The current folder. Raises ``WorkspaceNotFound`` when somebody has removed it."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise WorkspaceNotFound("The current folder does not exist any more; change to another one") from None


def at(path: Path) -> Workspace:
    """The workspace in exactly this folder (or of this state folder), with or without a database yet."""
    root = path.resolve()
    if root.name in (STATE_NAME, ADOPTED_NAME):
        root = root.parent
    state = _state_with_database(root)
    if state is None and (root / STATE_NAME).is_dir():
        state = root / STATE_NAME
    if state is None:
        raise WorkspaceNotFound(f"{root} is not a workspace", start=str(root))
    return _trusted(root, state)


def create(root: Path) -> Workspace:
    """Makes the folders of a workspace, private and kept out of version control. One that exists stays as it is."""
    root = root.resolve()
    state = _state_with_database(root) or root / STATE_NAME
    try:
        state.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        workspace = _trusted(root, state)
        for folder in (workspace.lock.parent, workspace.logs):
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        ignore = workspace.state / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise WorkspaceUnsafe(f"{state} cannot be used: {error.strerror}", path=str(state)) from error
    return workspace


def foreign_config_notice(workspace: Workspace) -> str | None:
    """What to tell a user who expects ``agentlip.config.ts`` to have an effect: it is code, and never executed."""
    if not (workspace.root / FOREIGN_CONFIG).exists():
        return None
    return f"{FOREIGN_CONFIG} is not executed; write the settings you need to {workspace.config.name}"


def _upwards(origin: Path) -> Iterator[Path]:
    home = Path.home().resolve()
    device = _device(origin)
    for folder in (origin, *origin.parents):
        if _device(folder) != device:
            return
        yield folder
        if folder == home:
            return


def _device(folder: Path) -> int | None:
    try:
        return folder.stat().st_dev
    except OSError:
        return None


def _state_with_database(root: Path) -> Path | None:
    for name in (STATE_NAME, ADOPTED_NAME):
        # lexists: a link that leads nowhere must be refused, not overlooked.
        if os.path.lexists(root / name / DATABASE_NAME):
            return root / name
    return None


def _trusted(root: Path, state: Path) -> Workspace:
    real = state.resolve()
    if not real.is_relative_to(root):
        raise WorkspaceUnsafe(f"{state} leads out of the workspace, to {real}", path=str(state))
    try:
        owner = real.stat().st_uid
        if owner != os.geteuid():
            raise WorkspaceUnsafe(
                f"{state} belongs to user {owner}, not to user {os.geteuid()} who asks", path=str(state), owner=owner
            )
        with os.scandir(real) as entries:
            strays = [entry.path for entry in entries if entry.is_symlink() and not _inside(Path(entry.path), real)]
    except OSError as error:
        raise WorkspaceUnsafe(f"{state} cannot be read: {error.strerror}", path=str(state)) from error
    if strays:
        raise WorkspaceUnsafe(f"{strays[0]} leads out of the state folder", path=strays[0])
    return Workspace(root, real)


def _inside(link: Path, folder: Path) -> bool:
    try:
        return link.resolve(strict=True).is_relative_to(folder)
    except OSError:
        return False
