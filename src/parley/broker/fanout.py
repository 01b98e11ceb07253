"""Who is connected here, and so whom to wake after a commit: a few dictionaries, and no sockets in them."""

from collections.abc import Iterable


class Fanout:
    """The connections of one broker, by member and by mesh."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[str, str]] = {}
        self._of_member: dict[str, dict[str, None]] = {}
        self._of_mesh: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def add(self, connection_id: str, mesh_id: str, member_id: str) -> None:
        """The connection is the member's from now on."""
        self._owners[connection_id] = (mesh_id, member_id)
        self._of_member.setdefault(member_id, {})[connection_id] = None
        self._of_mesh.setdefault(mesh_id, {})[connection_id] = None

    def remove(self, connection_id: str) -> None:
        """The connection is gone."""
        owner = self._owners.pop(connection_id, None)
        if owner is None:
            return
        for index, key in ((self._of_mesh, owner[0]), (self._of_member, owner[1])):
            del index[key][connection_id]
            if not index[key]:
                del index[key]

    def connections(self) -> list[str]:
        """All of them, in the order in which they came."""
        return list(self._owners)

    def of_members(self, member_ids: Iterable[str]) -> list[str]:
        """The connections of these members, each once."""
        return [each for member_id in dict.fromkeys(member_ids) for each in self._of_member.get(member_id, ())]

    def of_mesh(self, mesh_id: str) -> list[str]:
        """The connections of a mesh."""
        return list(self._of_mesh.get(mesh_id, ()))
