"""Which brokers the pipeline reads: by the file of a broker, or by the address of its PostgreSQL database.

A broker is known by the id in its database, never by where that lies. A password is used by whoever was given it and
goes no further: it is in no text that a person or a log is shown, in no table, and not in what is handed to Spark's
tasks. Those find it as every client of PostgreSQL does, in ``PGPASSWORD`` or in a password file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from parley.core.errors import SchemaTooNew
from parley.core.pipeline_errors import BrokerInvalid, HubAmbiguous

POSTGRESQL: Final = ("postgresql://", "postgres://")
KNOWN_SCHEMA: Final = 6
"""The newest schema of a broker's tables that can be read here."""
_SECRETS: Final = ("password", "sslpassword")


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A broker's file, or how its database is reached. What is pickled lacks the password."""

    path: str | None = None
    conninfo: str | None = None
    """In libpq's words, without passwords."""
    secrets: dict[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return (StoreAddress, (self.path, self.conninfo))

    @property
    def source(self) -> str:
        """Its name to people and in the lake: the file, or host and database."""
        return self.path if self.path is not None else _shown(self.conninfo or "")


@dataclass(frozen=True, slots=True)
class BrokerRef:
    """One broker at its present epoch, which changes only when a backup is restored."""

    broker_id: str
    epoch: int
    address: StoreAddress

    @property
    def source(self) -> str:
        """Its name to people and in the lake."""
        return self.address.source


def find_brokers(names: Sequence[str]) -> list[BrokerRef]:
    """The brokers that these files and addresses name, each once, in the order of their ids.

    Raises ``BrokerInvalid`` if something else is there, ``HubAmbiguous`` if two stores say that they are one broker.
    """
    found: dict[str, BrokerRef] = {}
    for name in names:
        broker = broker_at(address_of(name))
        known = found.setdefault(broker.broker_id, broker)
        if known.address != broker.address:
            raise HubAmbiguous(
                f"{known.source} and {broker.source} are the same broker ({broker.broker_id})",
                db_id=broker.broker_id,
                sources=[known.source, broker.source],
            )
    return sorted(found.values(), key=lambda broker: broker.broker_id)


def address_of(name: str) -> StoreAddress:
    """What a user named: ``postgresql://…``, or a file."""
    if not name.startswith(POSTGRESQL):
        return StoreAddress(path=str(Path(name).absolute()))
    conninfo = _conninfo()
    try:
        parts: dict[str, Any] = conninfo.conninfo_to_dict(name)
    except Exception:
        # What the parser says repeats the address, password and all.
        raise BrokerInvalid("The address of the database cannot be read; it has the form postgresql://…") from None
    secrets = {key: str(parts.pop(key)) for key in _SECRETS if key in parts}
    return StoreAddress(conninfo=conninfo.make_conninfo(**parts), secrets=secrets)


def broker_at(address: StoreAddress) -> BrokerRef:
    """The broker whose store this is. Raises ``BrokerInvalid``, or ``SchemaTooNew``."""
    from parley.pipeline.brokers.reading import open_store

    with open_store(address) as store:
        meta = {str(key): str(value) for key, value in store.rows("SELECT key, value FROM meta")}
    version = int(meta.get("schema_version", "0"))
    if version > KNOWN_SCHEMA:
        raise SchemaTooNew(
            f"{address.source} has schema version {version}; this Parley knows versions up to {KNOWN_SCHEMA}",
            found=version,
            known=KNOWN_SCHEMA,
        )
    if "broker_id" not in meta or "epoch" not in meta:
        raise BrokerInvalid(f"{address.source} is no broker's store", source=address.source)
    return BrokerRef(meta["broker_id"], int(meta["epoch"]), address)


def _shown(conninfo: str) -> str:
    parts: dict[str, Any] = _conninfo().conninfo_to_dict(conninfo)
    host, port = str(parts.get("host", "")), str(parts.get("port", ""))
    return f"postgresql://{host}{':' if port else ''}{port}/{parts.get('dbname', '')}"


def _conninfo() -> Any:
    """The parser of PostgreSQL's client. Raises ``BrokerInvalid`` where it is not installed."""
    try:
        from psycopg import conninfo
    except ImportError as error:
        missing = BrokerInvalid("PostgreSQL needs a package that is not installed")
        missing.hint = "Install it with `pip install 'parley-mesh[postgres]'`."
        raise missing from error
    return conninfo
