"""The end of a daemon whose keys end with it: what it has taken is sent, and then it leaves its meshes.

Nobody could ever be this member again, so as long as it stayed one, others would write to it in vain and share their
keys with it. A broker that cannot be reached is not told; the member is then an admin's to remove.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from parley.core.errors import ParleyError
from parley.daemon.outbox.rows import counts
from parley.daemon.rosters import acts
from parley.daemon.rosters.mesh import RosterMesh

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon
    from parley.daemon.mesh import Mesh

SEND_SECONDS: Final = 10.0
"""How long what waits in the outbox may take."""
LEAVE_SECONDS: Final = 15.0
"""How long a broker may take to answer. Both together are less than what a stop waits before it kills."""
_LOOK_SECONDS: Final = 0.05


async def leave_all(daemon: "Daemon") -> None:
    """Leaves every mesh that is not over, and says in the log which it could not."""
    going = [mesh for mesh in daemon.meshes.values() if mesh.runner.ended is None]
    await asyncio.gather(*(_leave(daemon, mesh) for mesh in going))


async def _leave(daemon: "Daemon", mesh: "Mesh") -> None:
    try:
        await _sent(daemon, mesh)
        mesh.leaving = True  # the broker closes the connection with its answer
        async with asyncio.timeout(LEAVE_SECONDS):
            if isinstance(mesh, RosterMesh):
                await mesh.do(acts.leave(mesh.membership.member_id))
            else:
                await mesh.runner.ask("leave")
    except TimeoutError:
        daemon.log.warning("mesh_not_left", mesh=mesh.slug, problem="the broker did not answer in time")
    except ParleyError as error:
        daemon.log.warning("mesh_not_left", mesh=mesh.slug, problem=error.message)
    else:
        daemon.log.info("mesh_left", mesh=mesh.slug)


async def _sent(daemon: "Daemon", mesh: "Mesh") -> None:
    """Waits until nothing of the mesh is to be sent any more, for so long at most and while its broker is there."""
    for _ in range(round(SEND_SECONDS / _LOOK_SECONDS)):
        if not mesh.runner.machine.ready or not _waits(daemon, mesh.mesh_id):
            return
        await asyncio.sleep(_LOOK_SECONDS)


def _waits(daemon: "Daemon", mesh_id: str) -> bool:
    rows = daemon.store.read_outbox(counts)
    return any(mesh == mesh_id and status in ("pending", "inflight") for mesh, status, _ in rows)
