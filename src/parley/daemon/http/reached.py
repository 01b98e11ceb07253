"""How many recipients have what was sent: asked of each mesh's broker once for a whole list.

``done`` means that the broker has a message. Who has it from there the broker alone knows, and only while it can be
asked; so nothing of this is kept, and what is not known is not guessed.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from parley.core.errors import ParleyError
from parley.daemon.outbox.rows import OutboxRow
from parley.wire.daemon_answers import Reached

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon

ASK_SECONDS: Final = 5.0
"""How long a list waits for a broker that says nothing."""


class _Counted(Reached, frozen=True):
    client_message_id: str = ""

    @property
    def reached(self) -> Reached:
        """What the broker counts as delivered holds what could not be opened, too."""
        return Reached(self.recipients, self.delivered - (self.undecryptable or 0), self.dead, self.undecryptable)


class _Answer(msgspec.Struct, frozen=True):
    messages: list[_Counted]


async def reached(daemon: "Daemon", rows: Sequence[OutboxRow]) -> dict[str, Reached]:
    """What is known of the rows that a broker has, by the ids of their messages."""
    of_mesh: dict[str, list[str]] = {}
    for row in rows:
        if row.status == "done":
            of_mesh.setdefault(row.mesh_id, []).append(row.client_message_id)
    found: dict[str, Reached] = {}
    for each in await asyncio.gather(*(_of_mesh(daemon, mesh_id, ids) for mesh_id, ids in of_mesh.items())):
        found.update({one.client_message_id: one.reached for one in each})
    return found


async def _of_mesh(daemon: "Daemon", mesh_id: str, ids: list[str]) -> list[_Counted]:
    """Nothing where the broker is away, silent, or too old to be asked for many at once."""
    mesh = daemon.meshes.get(mesh_id)
    if mesh is None or not mesh.runner.machine.ready:
        return []
    try:
        async with asyncio.timeout(ASK_SECONDS):
            answer = await mesh.runner.ask("messages_reached", {"client_message_ids": ids})
        return msgspec.convert(answer, _Answer).messages
    except (ParleyError, TimeoutError, msgspec.ValidationError):
        return []
