"""Asking a broker's store: the same question of a file or of a database, the same rows in answer.

A file is read as a hub's is, from SQLite into Arrow columns, while the broker writes to it. A database is read through
a cursor on the server, some rows at a time. Each question is a read-only transaction of its own, so none holds up what
the broker or its database does to clear away; only a snapshot is one transaction for all that is asked of it.
"""

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import apsw
import pyarrow as pa

from parley.core.errors import DatabaseCorrupt, ServiceUnavailable
from parley.core.pipeline_errors import BrokerInvalid
from parley.pipeline.brokers.stores import StoreAddress
from parley.pipeline.session import BATCH_ROWS
from parley.pipeline.source.files import select_batches
from parley.sqlite import close_quietly, open_reader, translate

if TYPE_CHECKING:
    import psycopg

CONNECT_SECONDS: Final = 10
_TYPED: Final = {pa.int64(): "0", pa.string(): "''", pa.binary(): "x''"}


class Store(Protocol):
    """A store that is open for reading. Statements have their values written in them; see ``quoted``."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """A short answer, whole."""
        ...

    def batches(self, schema: pa.Schema, statement: str, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """A long answer, as batches of this schema, whose columns are numbers, texts or bytes."""
        ...


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


@contextlib.contextmanager
def open_store(address: StoreAddress, *, snapshot: bool = False) -> Generator[Store]:
    """The store as it is, or with ``snapshot`` one moment of it; for a file that takes a copy, so it is a database's.

    Raises ``BrokerInvalid`` if there is no broker's store, and ``ServiceUnavailable`` where a database does not answer.
    """
    if address.path is not None:
        yield from _open_file(address.path)
    else:
        with _open_database(address, snapshot) as store:
            yield store


def _open_file(path: str) -> Iterator[Store]:
    if not Path(path).is_file():
        raise BrokerInvalid(f"There is no file {path}", source=path)
    connection: apsw.Connection | None = None
    try:
        connection = open_reader(Path(path))
        yield _File(path, connection)
    except (apsw.SQLError, DatabaseCorrupt) as error:
        raise BrokerInvalid(f"{path} cannot be read as a broker's file: {error}", source=path) from error
    except apsw.Error as error:
        raise translate(error) from error
    finally:
        close_quietly(connection)


class _File:
    def __init__(self, path: str, connection: apsw.Connection) -> None:
        self._path, self._connection = path, connection

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement).fetchall()

    def batches(self, schema: pa.Schema, statement: str, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        typed = "SELECT " + ", ".join(_TYPED[field.type] for field in schema)
        for batch in select_batches(self._path, typed, statement, batch_rows):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


@contextlib.contextmanager
def _open_database(address: StoreAddress, snapshot: bool) -> Generator[Store]:
    import psycopg

    try:
        secrets: dict[str, Any] = dict(address.secrets)
        with psycopg.connect(
            address.conninfo or "", autocommit=True, connect_timeout=CONNECT_SECONDS, **secrets
        ) as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with connection.transaction() if snapshot else contextlib.nullcontext():
                yield _Database(connection)
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise ServiceUnavailable(
            f"{address.source} cannot be reached, or does not let its user in", reason="database_unreachable"
        ) from error
    except psycopg.Error as error:
        said = error.diag.message_primary or type(error).__name__
        raise BrokerInvalid(f"{address.source} cannot be read as a broker's: {said}", source=address.source) from error


class _Database:
    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._connection = connection

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.transaction():
            return self._connection.execute(statement.encode()).fetchall()

    def batches(self, schema: pa.Schema, statement: str, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        with self._connection.transaction(), self._connection.cursor(name="parley_rows") as cursor:
            cursor.execute(statement.encode())
            while rows := cursor.fetchmany(batch_rows):
                columns = zip(zip(*rows, strict=True), schema, strict=True)
                yield pa.RecordBatch.from_arrays(
                    [pa.array(values, field.type) for values, field in columns], schema=schema
                )
