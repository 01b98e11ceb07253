"""The hub that ``server.json`` speaks of: whether it answers, and whether it serves this very folder.

The lock and the database's own lock are what keeps a second writer out. This is asked beside them, before anything is
made anew: files that were removed leave no lock behind, but the hub that has them open still answers for a moment.
"""

import http.client
from typing import Any, Final, NamedTuple

import msgspec

from parley.core import untrusted_json
from parley.core.errors import WriterLockHeld
from parley.wire.server_file import ServerFile
from parley.workspace.layout import Workspace

HEALTH_SECONDS: Final = 2.0


class Answering(NamedTuple):
    """A hub that answers, and what it says of itself."""

    server: ServerFile
    health: dict[str, Any]


def answering(workspace: Workspace) -> Answering | None:
    """The announced hub, if it answers and is the one that was announced."""
    try:
        server = untrusted_json.decode(workspace.server_file.read_bytes(), ServerFile)
    except (OSError, msgspec.DecodeError):
        return None
    health = _health(server)
    return Answering(server, health) if health.get("db_id") == server.db_id else None


def refuse_announced(workspace: Workspace) -> None:
    """Raises ``WriterLockHeld`` if a hub of ours that was announced here answers for this folder."""
    found = answering(workspace)
    if found is None or found.health.get("instance_id") != found.server.instance_id:
        return
    if found.server.state_inode != workspace.state.stat().st_ino:
        return  # a copy of the folder of a hub that runs elsewhere, or one of Agentlip's
    raise WriterLockHeld(
        f"{workspace.root} is served by process {found.server.pid} since {found.server.started_at}",
        pid=found.server.pid,
        instance_id=found.server.instance_id,
        started_at=found.server.started_at,
        path=str(workspace.server_file),
    )


def _health(server: ServerFile) -> dict[str, Any]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=HEALTH_SECONDS)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        return untrusted_json.decode(answer.read(), dict[str, Any]) if answer.status == 200 else {}
    except (OSError, http.client.HTTPException, msgspec.DecodeError, ValueError):
        return {}
    finally:
        connection.close()
