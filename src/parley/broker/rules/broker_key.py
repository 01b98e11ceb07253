"""The broker's own key: it signs the first invite of a mesh that it makes, and the heads of rosters that it carries.

There is one for each database, made once and kept in it. Brokers that share a database are one broker to their members
and must sign alike; and a backup has it, since every mesh has named this key: restored without it, each would have to
name another. Whoever has the database or a backup can sign heads, with which members could be stopped, and nothing
else: who is a member is signed by members.
"""

from typing import Final

from parley.broker.tx import Tx
from parley.core import sealing
from parley.core.errors import InternalError

_SEED: Final = "signing_seed"


def make_broker_key(tx: Tx, fresh: bytes) -> bytes:
    """The broker's seed, which is ``fresh`` should it have none yet."""
    tx.run("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING", _SEED, fresh.hex())
    return broker_seed(tx)


def broker_seed(tx: Tx) -> bytes:
    """The seed that was made when the broker started."""
    row = tx.one("SELECT value FROM meta WHERE key = ?", _SEED)
    if row is None:
        raise InternalError("The broker has no key")
    return bytes.fromhex(row[0])


def broker_key(tx: Tx) -> str:
    """The public half, as rosters name it."""
    return sealing.public_key(broker_seed(tx)).hex()
