"""``server.json``: how a client finds the hub of a workspace. Advisory only; ``/health`` has the last word."""

import msgspec

PROTOCOL_VERSION = "v1"
WIRE_SCHEMA_VERSION = 1
"""The schema version that Agentlip's clients check; ours is ``meta.parley_schema``."""


class ServerFile(msgspec.Struct, frozen=True):
    """The content of ``server.json``, mode 0600, removed at a clean stop."""

    instance_id: str
    db_id: str
    port: int
    host: str
    auth_token: str
    pid: int
    started_at: str
    protocol_version: str = PROTOCOL_VERSION
    schema_version: int = WIRE_SCHEMA_VERSION
    state_inode: int = 0
    """The inode of the state folder that it was written into: a copy of the workspace does not speak of this hub."""

    @property
    def base_url(self) -> str:
        """``http://host:port``, with brackets around an IPv6 address."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"
