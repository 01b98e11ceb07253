"""Reading a workspace's database without its hub: while one runs, after it stopped, and from a read-only mount.

A database of an older schema, which no hub has opened since an upgrade, can be read too, and so can an Agentlip one
that was not adopted yet. What they lack is given by temporary views, which live in this connection and shadow the
tables of the same name. Archives are databases of the same schema and open the same way.
"""

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import apsw

from parley.core.errors import ParleyError, SchemaTooNew, ServiceUnavailable, StartupFailed, WorkspaceNotFound
from parley.sqlite import apply_pragma, open_reader, translate
from parley.workspace.layout import Workspace
from parley.workspace.queries.agents import AGENT_COLUMNS
from parley.workspace.queries.entities import read_meta
from parley.workspace.queries.leases import LEASE_COLUMNS
from parley.workspace.queries.tasks import TASK_COLUMNS
from parley.workspace.versions import Versions, read_versions, refuse_newer

_SHAPE_OF_ADOPTED: Final = (
    "CREATE TEMP VIEW messages AS SELECT rowid AS seq, *, NULL AS reply_to FROM main.messages",
    "CREATE TEMP VIEW archives AS SELECT NULL AS name, NULL AS up_to_event_id WHERE FALSE",
)
_COORDINATION_SINCE: Final = 3
_SHAPE_BEFORE_COORDINATION: Final = tuple(
    f"CREATE TEMP VIEW {table} AS SELECT {', '.join(f'NULL AS {column}' for column in columns.split(', '))} WHERE FALSE"
    for table, columns in (("agents", AGENT_COLUMNS), ("tasks", TASK_COLUMNS), ("leases", LEASE_COLUMNS))
)


@dataclass(frozen=True, slots=True)
class Reading:
    """An open database that cannot be written through this connection. ``schema`` is 0 before adoption.

    Used with ``with``, what SQLite refuses inside comes out as an error of the product's tree.
    """

    connection: apsw.Connection
    path: Path
    db_id: str
    schema: int

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if isinstance(error, apsw.Error):
            raise translate(error) from error


def open_reading(workspace: Workspace) -> Reading:
    """Opens the workspace's database. Raises ``WorkspaceNotFound`` without one, ``SchemaTooNew`` for a newer one."""
    if not workspace.db.is_file():
        raise WorkspaceNotFound(f"{workspace.root} has no database yet", start=str(workspace.root))
    return open_reading_file(workspace.db)


def open_reading_file(path: Path) -> Reading:
    """Opens a database by its path: a workspace's, an archive, or a backup."""
    connection = open_reader(path)
    try:
        versions = read_versions(connection)
        refuse_newer(versions)
        if versions == (0, 0):
            raise ServiceUnavailable(f"{path.name} is empty: no hub has prepared it yet", reason="not_prepared")
        _give_shape(connection, versions)
        return Reading(connection, path, read_meta(connection, "db_id") or "", versions.parley)
    except apsw.Error as error:
        connection.close()
        raise translate(error) from error
    except BaseException:
        connection.close()
        raise


def refuse_foreign(path: Path) -> None:
    """Raises ``SchemaTooNew`` or ``StartupFailed`` for a database that this program must not write to.

    One that cannot be read at all is damaged, which is for others to say.
    """
    try:
        open_reading_file(path).close()
    except (SchemaTooNew, StartupFailed):
        raise
    except ParleyError:
        return


def _give_shape(connection: apsw.Connection, versions: Versions) -> None:
    """Shows what this file lacks as empty."""
    lacking = _SHAPE_OF_ADOPTED if versions.adoptable else ()
    if versions.parley < _COORDINATION_SINCE:
        lacking += _SHAPE_BEFORE_COORDINATION
    if lacking:
        apply_pragma(connection, "query_only", 0)  # it counts views of this connection's own as writing
        for statement in lacking:
            connection.execute(statement)
        apply_pragma(connection, "query_only", 1)
