"""What a broker's start decides: the folder it keeps its things in, and the settings laid out as it wants them."""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from parley.broker.policy import DEDUPE_DAYS_MIN, DEFAULT_POLICY, Policy
from parley.core.broker_settings import BrokerSettings
from parley.core.errors import ConfigInvalid

POSTGRESQL: Final = ("postgresql://", "postgres://")
FILE: Final = "broker.db"


@dataclass(frozen=True)
class BrokerOptions:
    """A folder, made if it is not there, and the settings of the broker that has it."""

    folder: Path
    settings: BrokerSettings = field(default_factory=BrokerSettings)
    policy: Policy = DEFAULT_POLICY
    version: str = ""

    @cached_property
    def store(self) -> str:
        """The path of a file, or the address of a PostgreSQL database."""
        return store_at(self.settings.store.address, self.folder)

    @property
    def keeps_file(self) -> bool:
        """Whether what it holds is in a file; a database may be served by several brokers."""
        return not self.store.startswith(POSTGRESQL)

    @property
    def tls_cert(self) -> Path | None:
        return self._beside(self.settings.server.tls_cert)

    @property
    def tls_key(self) -> Path | None:
        return self._beside(self.settings.server.tls_key)

    def _beside(self, name: str) -> Path | None:
        return self.folder / name if name else None


def broker_options(settings: BrokerSettings, folder: Path, version: str = "") -> BrokerOptions:
    """The settings as the broker wants them. Raises ``ConfigInvalid``."""
    tables = (settings.limits, settings.timing, settings.retention, settings.mesh)
    given: dict[str, Any] = {each.name: getattr(table, each.name) for table in tables for each in fields(table)}
    policy = Policy(**given)
    policy = replace(policy, delivery_days=min(policy.delivery_days, policy.message_days))
    if policy.dedupe_days and policy.dedupe_days < max(DEDUPE_DAYS_MIN, policy.message_days):
        raise ConfigInvalid(
            f"--dedupe-days must be 0, or at least {DEDUPE_DAYS_MIN} and not less than --message-days",
            dedupe_days=policy.dedupe_days,
            message_days=policy.message_days,
        )
    store_at(settings.store.address, folder)
    return BrokerOptions(folder, settings, policy, version)


def store_at(address: str, folder: Path) -> str:
    """The address as the broker wants it. Raises ``ConfigInvalid`` for a database that is no store of ours."""
    scheme, colon, _ = address.partition("://")
    if colon and not address.startswith(POSTGRESQL):
        raise ConfigInvalid(f"A broker's store is a file or postgresql://…, not {scheme}://…", key="store.address")
    return address if colon else str(folder / (address or FILE))
