"""Which hubs the pipeline reads: workspaces by path or pattern, and hubs on other machines by address.

A hub is known by the id of its database, never by where it lies. A workspace that was copied has the id of the one it
was copied from, and both would write to the same place of the lake; so two different files with one id are refused.
A token is never part of what is handed to Spark, whose plans can be shown and logged: a hub carries where its token is
found, and whoever asks the hub looks there.
"""

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from parley.core.errors import InvalidAuth, InvalidInput, ParleyError, ServiceUnavailable, WorkspaceNotFound
from parley.core.pipeline_errors import HubAmbiguous
from parley.workspace import discovery
from parley.workspace.reading import open_reading

TOKEN_VARIABLE: Final = "PARLEY_HUB_TOKEN"
PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class HubRef:
    """One hub: a file that can be opened here, or an address that can be asked. ``source`` names it to people."""

    db_id: str
    source: str
    """The workspace's path, or the hub's address."""
    database: str | None = None
    url: str | None = None
    token_file: str | None = None

    def token(self) -> str | None:
        """The token for a hub that is asked: that of the named file, else of the environment."""
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE)
        try:
            return Path(self.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise InvalidAuth(f"The token file {self.token_file} cannot be read: {error.strerror}") from error


def find_hubs(workspaces: Sequence[str] = (), urls: Sequence[str] = (), token_file: str | None = None) -> list[HubRef]:
    """The hubs that these name, each once, in the order of their ids.

    A workspace is a folder or a pattern of folders; with neither workspaces nor addresses it is the one around the
    current folder. Raises ``WorkspaceNotFound`` if a name leads to none, ``HubAmbiguous`` if two files are one hub.
    """
    found = [hub_of_workspace(folder) for folder in _folders(workspaces, nearest=not urls)]
    found += [hub_at(url, token_file) for url in urls]
    hubs: dict[str, HubRef] = {}
    for hub in found:
        known = hubs.setdefault(hub.db_id, hub)
        if known.database != hub.database and known.database is not None and hub.database is not None:
            raise HubAmbiguous(
                f"{known.source} and {hub.source} are the same hub ({hub.db_id})",
                db_id=hub.db_id,
                sources=[known.source, hub.source],
            )
    return sorted(hubs.values(), key=lambda hub: hub.db_id)


def hub_of_workspace(folder: Path) -> HubRef:
    """The hub of the workspace in exactly this folder, read from its file."""
    workspace = discovery.at(folder)
    with open_reading(workspace) as reading:
        return HubRef(reading.db_id, str(workspace.root), database=str(workspace.db))


def hub_at(url: str, token_file: str | None = None) -> HubRef:
    """The hub that answers at this address. Raises ``InvalidInput`` if it is none."""
    from parley.client import Client

    if not _is_address(url):
        raise InvalidInput(f"{url} is not the address of a hub, as http://HOST:PORT is", url=url)
    hub = HubRef("", url.rstrip("/"), url=url.rstrip("/"), token_file=token_file)
    with Client(url=hub.url, token=hub.token()) as client:
        return replace(hub, db_id=client.health().db_id)


def leads_to(source: str, hub: HubRef) -> bool:
    """Whether this workspace or address is one of the hub, as far as can be told from here."""
    try:
        found = hub_at(source, hub.token_file) if _is_address(source) else hub_of_workspace(Path(source))
    except ParleyError:
        return False
    return found.db_id == hub.db_id


def is_pattern(workspace: str) -> bool:
    """Whether this stands for the folders that match it, and is not the name of one that is there."""
    return glob.has_magic(workspace) and not Path(workspace).exists()


def _is_address(url: str) -> bool:
    import httpx

    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):  # a name that cannot be one in any alphabet is the latter
        return False
    return parts.scheme in ("http", "https") and bool(parts.host) and (parts.port or 0) <= PORT_MAX


def _folders(workspaces: Sequence[str], *, nearest: bool) -> Iterable[Path]:
    if not workspaces:
        return [discovery.discover().root] if nearest else []
    return dict.fromkeys(folder for pattern in workspaces for folder in _matching(pattern))


def _matching(pattern: str) -> list[Path]:
    """The folder of this name, or the workspaces among those that match.

    A pattern may meet folders that are none, and workspaces that are being made: the next look finds those.
    """
    if not is_pattern(pattern):
        return [Path(pattern).resolve()]
    # Path.glob takes no pattern that starts at the root, which is what a user writes.
    matches = (Path(match).resolve() for match in sorted(glob.glob(pattern, recursive=True)))  # noqa: PTH207
    found = [folder for folder in matches if folder.is_dir() and _can_be_read(folder)]
    if not found:
        raise WorkspaceNotFound(f"No workspace matches {pattern}", pattern=pattern)
    return found


def _can_be_read(folder: Path) -> bool:
    try:
        open_reading(discovery.at(folder)).close()
    except WorkspaceNotFound:
        return False
    except ServiceUnavailable as error:
        if error.details.get("reason") != "not_prepared":
            raise
        return False
    return True
