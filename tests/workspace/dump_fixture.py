"""Writes the small database of the newest schema that later versions must still be able to migrate.

Run it once when a schema lands: ``python -m tests.workspace.dump_fixture > tests/fixtures/schema/v3.sql``. A fixture
that is in the repository is never written again.
"""

import tempfile
from pathlib import Path

import apsw

from parley.core.clock import ManualClock
from tests.hub.histories import History
from tests.workspace.databases import START_MS, dump, new_workspace, prepared, writing


def script(connection: apsw.Connection) -> str:
    """The schema and the rows as statements, in an order in which they can run."""
    lines: list[str] = []
    tables = dump(connection, "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    lines += [f"{sql};" for _, sql in tables]
    for name, _ in tables:
        columns = [row[1] for row in dump(connection, f"PRAGMA table_info({name})")]
        quoted = " || ', ' || ".join(f"quote({column})" for column in columns)
        lines += [
            f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({values});"
            for (values,) in dump(connection, f"SELECT {quoted} FROM {name}")
        ]
    rest = dump(connection, "SELECT sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL")
    lines += [f"{sql};" for (sql,) in rest]
    return "\n".join(lines)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace = new_workspace(Path(folder))
        with writing(workspace) as connection:
            prepared(connection, workspace, fts=False, new_id=lambda: "00000000-0000-4000-8000-000000000000")
            history = History(connection, 11, ManualClock(START_MS))
            history.run(160)
            history.message("hello from the first day")
            print(script(connection))


if __name__ == "__main__":
    main()
