"""Who came, went, or said what it is doing, gathered per mesh and told together.

To tell everybody of everybody at once costs the square of a mesh: a thousand daemons that come back after a restart
would be told a million things. So what happens within a moment is one notice for all of it, of a bounded size; where
more has happened than fits, the notice says how much, and who wants to know asks for the peers.
"""

from typing import Any, Final

from parley.wire.broker import Notice

NAMES_MAX: Final = 50
"""Members that one notice names."""
NOTICE: Final = "peers_changed"


class _Changes:
    """Of one mesh."""

    def __init__(self) -> None:
        self.connected: dict[str, bool] = {}
        self.presence: dict[str, str] = {}

    def notice(self) -> Notice:
        came = [each for each, connected in self.connected.items() if connected]
        went = [each for each, connected in self.connected.items() if not connected]
        busy = list(self.presence)
        data: dict[str, Any] = {
            "connected": came[:NAMES_MAX],
            "disconnected": went[:NAMES_MAX],
            "presence": {each: self.presence[each] for each in busy[:NAMES_MAX]},
            "more": sum(max(0, len(each) - NAMES_MAX) for each in (came, went, busy)),
        }
        return Notice(NOTICE, data)


class PeerChanges:
    """Of all meshes, since they were told last."""

    def __init__(self) -> None:
        self._meshes: dict[str, _Changes] = {}

    def take_in(self, mesh_id: str, notice: Notice) -> bool:
        """Keeps a notice that may be told with others. False for one that is to be told now."""
        member_id = str(notice.data.get("member_id", ""))
        if notice.name == "peer_connected":
            self.connected(mesh_id, member_id, True)
        elif notice.name == "presence":
            self._of(mesh_id).presence[member_id] = str(notice.data.get("status", ""))
        else:
            return False
        return True

    def connected(self, mesh_id: str, member_id: str, connected: bool) -> None:
        """A member is here now, or is not. Who goes and comes back in a moment was never away."""
        changes = self._of(mesh_id)
        before = changes.connected.pop(member_id, None)
        if before is None or before == connected or not connected:
            changes.connected[member_id] = connected

    def take(self) -> list[tuple[str, Notice]]:
        """What is to be told, mesh by mesh."""
        meshes, self._meshes = self._meshes, {}
        return [(mesh_id, each.notice()) for mesh_id, each in meshes.items() if each.connected or each.presence]

    def _of(self, mesh_id: str) -> _Changes:
        return self._meshes.setdefault(mesh_id, _Changes())
