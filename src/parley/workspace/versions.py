"""Which schema a database has, and which of them this program can serve or read.

Two numbers stand in ``meta``: ``schema_version`` is Agentlip's and stays 1 for its clients; ``parley_schema`` is ours
and counts our migrations. A file with the first but not the second is an Agentlip database that was not adopted yet.
"""

from typing import Final, NamedTuple

import apsw

from parley.core.errors import SchemaTooNew, StartupFailed
from parley.sqlite import Migration, load_migrations
from parley.wire.server_file import WIRE_SCHEMA_VERSION

MIGRATIONS: Final[tuple[Migration, ...]] = load_migrations("parley.workspace")

_TABLES: Final = "SELECT count(*), coalesce(sum(name = 'meta'), 0) FROM sqlite_schema WHERE type = 'table'"
_VERSIONS: Final = "SELECT key, value FROM meta WHERE key IN ('parley_schema', 'schema_version')"


class Versions(NamedTuple):
    """The two numbers as found; 0 stands for none."""

    parley: int
    agentlip: int

    @property
    def adoptable(self) -> bool:
        """Whether this is an Agentlip database that was not adopted yet."""
        return self.agentlip > 0 and self.parley == 0


def read_versions(connection: apsw.Connection) -> Versions:
    """The schema of this file; (0, 0) for an empty one. Raises ``StartupFailed`` for a database of something else."""
    tables, has_meta = connection.execute(_TABLES).fetchall()[0]
    if not tables:
        return Versions(0, 0)
    found = (
        {str(key): _number(str(key), str(value)) for key, value in connection.execute(_VERSIONS)} if has_meta else {}
    )
    if not found:
        raise StartupFailed("The file holds tables that are not a workspace's; it is left as it is")
    return Versions(found.get("parley_schema", 0), found.get("schema_version", 0))


def refuse_newer(versions: Versions, known: int = len(MIGRATIONS)) -> None:
    """Raises ``SchemaTooNew`` if a newer Parley, or a newer Agentlip, wrote the database."""
    for found, newest, writer in (
        (versions.parley, known, "Parley"),
        (versions.agentlip, WIRE_SCHEMA_VERSION, "Agentlip"),
    ):
        if found > newest:
            raise SchemaTooNew(
                f"The database has {writer} schema version {found}; this program knows versions up to {newest}",
                found=found,
                known=newest,
            )


def _number(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise StartupFailed(f"meta.{key} is {text!r}, which is not a version") from error
