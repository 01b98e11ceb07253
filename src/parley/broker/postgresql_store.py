"""The store for several brokers: a PostgreSQL database, which they share as equals.

What one broker commits is a signal to the others by ``NOTIFY`` in the same transaction. A delivery is claimed by a row
lock that others skip, so two brokers never lease the same one. Messages of a mesh are accepted under the lock of the
mesh's row; a batch takes the locks of all its meshes first and in order. Rules of a kind that wait together run side by
side, so that a batch costs a few journeys to the database and not a few for each message.

A commit whose answer was lost may have happened. Its rules are then run again, alone: every rule can be repeated, and
an accepted message is recognised by its id.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, LiteralString, TypeVar, cast

import apsw
import msgspec
import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from parley.broker.calls import Gathered
from parley.broker.policy import DEFAULT_POLICY, Policy
from parley.broker.sets import change_for_each, columns_of, select_for_each
from parley.broker.signals import Signal, signals
from parley.broker.store import StoreMethods
from parley.broker.tx import Row, Rule, Tx, meshes_locked
from parley.core import untrusted_json
from parley.core.broker_errors import BrokerRunning
from parley.core.clock import Clock
from parley.core.errors import (
    InternalError,
    MigrationFailed,
    ParleyError,
    SchemaTooNew,
    ServiceUnavailable,
    StartupFailed,
)
from parley.core.ids import IdSource, new_uuid
from parley.sqlite import Outcome, load_migrations

T = TypeVar("T")
Connection = psycopg.Connection[Row]

POOL_MAX: Final = 4
"""One for the messages that wait, one for their deliveries, the others for what is asked meanwhile."""
_WAIT_SECONDS: Final = 30.0
_CHANNEL: Final = "parley_broker"
_MIGRATION_LOCK: Final = 7_017_195_380_842_001
"""A number of our own, so that two brokers that start at once do not both make the tables."""
_SERVED_LOCK: Final = 7_017_195
"""Held by each broker that serves, and alone by who replaces everything. Its second half is the schema."""
_NODE_CHARS: Final = 8
_FAILED: Final = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout)


class PostgresqlTx:
    """A transaction on one connection."""

    __slots__ = ("_connection", "_new_id", "for_update", "now_ms", "skip_locked")

    def __init__(self, connection: Connection, now_ms: int, new_id: Callable[[str, int], str]) -> None:
        self._connection = connection
        self._new_id = new_id
        self.now_ms = now_ms
        self.for_update = " FOR UPDATE"
        self.skip_locked = " FOR UPDATE SKIP LOCKED"

    def all(self, sql: str, *args: Any) -> list[Row]:
        return self._connection.execute(_translated(sql), args).fetchall()

    def one(self, sql: str, *args: Any) -> Row | None:
        return self._connection.execute(_translated(sql), args).fetchone()

    def run(self, sql: str, *args: Any) -> int:
        return self._connection.execute(_translated(sql), args).rowcount

    def each(self, sql: str, rows: Sequence[Row]) -> list[list[Row]]:
        found: list[list[Row]] = [[] for _ in rows]
        if rows:
            columns, types = columns_of(rows)
            for number, *row in self._connection.execute(select_for_each(sql, types), columns).fetchall():
                found[int(number) - 1].append(tuple(row))
        return found

    def many(self, sql: str, rows: Iterable[Row]) -> list[Row]:
        values = list(rows)
        if not values:
            return []
        columns, types = columns_of(values)
        cursor = self._connection.execute(change_for_each(sql, types), columns)
        return cursor.fetchall() if cursor.description else []

    def lock_meshes(self, mesh_ids: Sequence[str]) -> None:
        """Waits until nobody else has them; in the order in which they are given."""
        self.each(f"SELECT 1 FROM mesh WHERE mesh_id = ?{self.for_update}", [(each,) for each in mesh_ids])

    def new_id(self, prefix: str) -> str:
        return self._new_id(prefix, self.now_ms)


class PostgresqlStore(StoreMethods):
    """A broker's meshes in a database. Its methods may be called from several threads."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        policy: Policy = DEFAULT_POLICY,
        *,
        instance: str | None = None,
        serving: bool = False,
    ) -> None:
        """Connects, and makes or migrates the tables. Raises ``ServiceUnavailable``, ``SchemaTooNew``, …

        Who is ``serving`` holds a lock of the database that keeps a backup from being restored meanwhile.
        """
        self.policy = policy
        self.instance = instance or new_uuid()
        self._url = url
        self._clock = clock
        self._ids = IdSource()
        self._ids_lock = threading.Lock()
        self._node = self.instance.replace("-", "")[:_NODE_CHARS]
        self._stopping = threading.Event()
        self._listener: threading.Thread | None = None
        self._lease: Connection | None = None
        self._pool = ConnectionPool(
            url,
            min_size=1,
            max_size=POOL_MAX,
            timeout=_WAIT_SECONDS,
            configure=_configure,
            open=False,
        )
        try:
            if serving:
                self._lease = self._leased()
            self._pool.open(wait=True, timeout=_WAIT_SECONDS)
            with self._pool.connection() as connection:
                _migrate(connection)
                self.broker_id = _meta(connection, "broker_id")
                self._epoch = _meta(connection, "epoch")
        except _FAILED as error:
            self.close()
            raise _unreachable(error) from error
        except BaseException:
            self.close()
            raise

    @property
    def epoch(self) -> int:
        return self.call(lambda tx: int((tx.one("SELECT value FROM meta WHERE key = 'epoch'") or ("0",))[0]))

    def commit(self, rules: Sequence[Rule[Any]]) -> list[Outcome[Any]]:
        if len(rules) > 1:
            with contextlib.suppress(Exception):  # whoever caused it meets it again, alone
                return self._together(rules)
        return [self._alone(rule) for rule in rules]

    def listen(self, on_signal: Callable[[Signal], None]) -> None:
        self._listener = threading.Thread(target=self._hear, args=(on_signal,), name="parley-signals", daemon=True)
        self._listener.start()

    def close(self) -> None:
        self._stopping.set()
        if self._listener is not None:
            self._listener.join()
        if self._lease is not None:
            self._lease.close()
        self._pool.close()

    def _together(self, rules: Sequence[Rule[Any]]) -> list[Outcome[Any]]:
        with self._pool.connection() as connection:
            self._tx(connection).lock_meshes(meshes_locked(rules))
            outcomes: list[Outcome[Any]] = []
            for kind, alike in groupby(rules, type):
                if issubclass(kind, Gathered):
                    values = kind.together(self._tx(connection), cast("list[Any]", list(alike)))
                    outcomes += [Outcome(value) for value in values]
                else:
                    outcomes += [self._one_of_many(connection, rule) for rule in alike]
            self._signal(connection, outcomes)
        return outcomes

    def _one_of_many(self, connection: Connection, rule: Rule[Any]) -> Outcome[Any]:
        """A rule that raises is undone alone; what the database itself refuses ends the whole transaction."""
        connection.execute("SAVEPOINT one_rule")
        try:
            outcome: Outcome[Any] = Outcome(rule(self._tx(connection)))
        except psycopg.Error:
            raise
        except Exception as error:
            connection.execute("ROLLBACK TO SAVEPOINT one_rule")
            outcome = Outcome(error=error)
        connection.execute("RELEASE SAVEPOINT one_rule")
        return outcome

    def _alone(self, rule: Rule[Any]) -> Outcome[Any]:
        try:
            with self._pool.connection() as connection:
                outcome: Outcome[Any] = Outcome(rule(self._tx(connection)))
                self._signal(connection, [outcome])
        except ParleyError as error:
            return Outcome(error=error)
        except _FAILED as error:
            return Outcome(error=_caused(_unreachable(error), error))
        except psycopg.Error as error:
            return Outcome(
                error=_caused(InternalError("The database refused a statement", sqlstate=error.sqlstate), error)
            )
        except Exception as error:
            return Outcome(error=error)
        return outcome

    def _tx(self, connection: Connection) -> PostgresqlTx:
        return PostgresqlTx(connection, self._clock.now_ms(), self._new_id)

    def _new_id(self, prefix: str, now_ms: int) -> str:
        """Unlike with a file there are several who make ids, so each adds a part of its own."""
        with self._ids_lock:
            return self._ids.new(prefix, now_ms) + self._node

    def _signal(self, connection: Connection, outcomes: Sequence[Outcome[Any]]) -> None:
        for signal in signals(self.instance, (each.value for each in outcomes if each.error is None)):
            connection.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, msgspec.json.encode(signal).decode()))

    def _hear(self, on_signal: Callable[[Signal], None]) -> None:
        """Until the store is closed; a connection that is lost is made again. Meanwhile sessions look by themselves."""
        while not self._stopping.is_set():
            with contextlib.suppress(*_FAILED), self._leased() as connection:
                connection.execute(f"LISTEN {_CHANNEL}")
                if _meta(connection, "epoch") != self._epoch:
                    on_signal(Signal("", restored=True))
                    return
                while not self._stopping.is_set():
                    for notify in connection.notifies(timeout=0.2):
                        with contextlib.suppress(msgspec.DecodeError):  # anybody may speak on the channel
                            signal = untrusted_json.decode(notify.payload, Signal)
                            if signal.origin != self.instance:
                                on_signal(signal)
            self._stopping.wait(0.2)

    def _leased(self) -> Connection:
        """A connection that keeps the database from being replaced for as long as it lives.

        While a restore is under way it waits for its end. What is there then is looked at after.
        """
        lease, self._lease = self._lease, None
        if lease is not None:
            return lease
        connection: Connection = psycopg.connect(self._url, autocommit=True)
        try:
            connection.execute("SET lock_timeout = '10s'")
            connection.execute("SELECT pg_advisory_lock_shared(%s, hashtext(current_schema()))", (_SERVED_LOCK,))
        except BaseException:
            connection.close()
            raise
        return connection


@lru_cache(maxsize=1024)
def _translated(sql: str) -> LiteralString:
    """The statement with PostgreSQL's marks for values. No statement of ours has a question mark in it otherwise."""
    return cast("LiteralString", sql.replace("%", "%%").replace("?", "%s"))


def _configure(connection: Connection) -> None:
    """A commit is answered when it is on disk, whatever the server's default is."""
    connection.execute("SET synchronous_commit = on")
    connection.commit()


def _migrate(connection: Connection) -> None:
    """Each start asks; one at a time does. The whole way from the old version to the new is one transaction."""
    migrations = load_migrations("parley.broker", "schema/postgresql")
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
    made = connection.execute("SELECT to_regclass('meta') IS NOT NULL").fetchone()
    current = int(_meta(connection, "schema_version")) if made and made[0] else 0
    if current > len(migrations):
        raise SchemaTooNew(
            f"The database has schema version {current}; this Parley knows versions up to {len(migrations)}",
            found=current,
            known=len(migrations),
        )
    for step in migrations[current:]:
        try:
            connection.execute(cast("LiteralString", step.sql))
        except psycopg.Error as error:
            raise MigrationFailed(f"Migration {step.number:04d}_{step.name} failed: {error}", backup=None) from error
        if step.number == 1:
            _set_meta(connection, "broker_id", new_uuid())
            _set_meta(connection, "epoch", "1")
        _set_meta(connection, "schema_version", str(step.number))


def _set_meta(connection: Connection, key: str, value: str) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )


def _meta(connection: Connection, key: str) -> str:
    row = connection.execute("SELECT value FROM meta WHERE key = %s", (key,)).fetchone()
    return str(row[0]) if row else ""


def _unreachable(error: Exception) -> ServiceUnavailable:
    del error  # its text may hold the address and the user of the database
    return ServiceUnavailable("The database cannot be reached", reason="database_unreachable", retry_after=1.0)


def _caused(error: ParleyError, cause: Exception) -> ParleyError:
    error.__cause__ = cause
    return error


@contextlib.contextmanager
def snapshot(url: str) -> Generator[Callable[[str, Sequence[str]], Iterable[Row]]]:
    """One moment of the database, table by table, read as it is asked for."""
    try:
        with psycopg.connect(url) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

            def rows(table: str, columns: Sequence[str]) -> Iterable[Row]:
                with connection.cursor(name=f"copy_{table}") as cursor:
                    cursor.execute(cast("LiteralString", f"SELECT {', '.join(columns)} FROM {table}"))
                    yield from cursor

            yield rows
    except _FAILED as error:
        raise _unreachable(error) from error


def replace_all(url: str, source: apsw.Connection, clock: Clock, *, force: bool) -> int:
    """Puts a backup in the place of all that the database holds, in one transaction; the new epoch."""
    from parley.broker.backup import IDENTITIES, MOMENTARY, TABLES, begin_epoch, columns_of, in_parts, rows_of

    with contextlib.closing(PostgresqlStore(url, clock)) as store:

        def replace(tx: Tx) -> int:
            free = tx.one("SELECT pg_try_advisory_xact_lock(?, hashtext(current_schema()))", _SERVED_LOCK)
            if free is None or not free[0]:
                raise BrokerRunning("A broker serves this database")
            earlier = tx.one("SELECT value FROM meta WHERE key = 'epoch'")
            if not force and tx.one("SELECT 1 FROM mesh") is not None:
                refusal = StartupFailed("The database holds a broker's meshes already")
                refusal.hint = "Back it up first, then restore with --force."
                raise refusal
            tx.run(f"TRUNCATE {', '.join((*TABLES, *MOMENTARY))}")
            for table in TABLES:
                columns = columns_of(source, table)
                marks = ", ".join("?" * len(columns))
                sql = f"INSERT INTO {table} ({', '.join(columns)}) OVERRIDING SYSTEM VALUE VALUES ({marks})"
                for part in in_parts(rows_of(source, table)):
                    tx.many(sql, part)
            for table, column in IDENTITIES.items():
                sequence = f"pg_get_serial_sequence('{table}', '{column}')"
                largest = source.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
                if largest is not None:
                    tx.one(f"SELECT setval({sequence}, ?)", largest[0])
            return begin_epoch(tx, int(earlier[0]) if earlier else 0)

        return store.call(replace)
