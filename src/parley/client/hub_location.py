"""Finding the hub of a workspace, and starting one if the caller asked for that.

``server.json`` is only a hint: a crash leaves it behind, and another process may have taken its port since. So before a
token is sent anywhere, ``/health`` must answer there in our protocol and for the database that lies on this disk.
Where no socket may be opened, the hub is asked through its spool, to which the token is never sent.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from parley.client.spool import spool_address
from parley.client.steps import Exited, HubAddress, Pause, Reply, Request, Spawn, Steps, exchange
from parley.core import untrusted_json
from parley.core.errors import HubNotRunning, ProtocolUnknown, StartupFailed
from parley.core.exits import Exit
from parley.wire.answers import Health
from parley.wire.server_file import PROTOCOL_VERSION, ServerFile
from parley.workspace.layout import Workspace

START_TRIES_MAX: Final = 15
ANSWER_SECONDS_MAX: Final = 2.0
"""How long a hub that another process started may take until it answers, before another start is tried."""
ANSWER_POLL_SECONDS: Final = 0.05
STDERR_CHARS_MAX: Final = 2_000
"""How much of a failed start's complaint is kept in the error."""


@dataclass(frozen=True, slots=True)
class InWorkspace:
    """The hub that serves a workspace on this machine."""

    workspace: Workspace
    db_id: Callable[[Workspace], str]
    """Reads the identity of the database on disk."""
    token: str | None = None
    """Used instead of the one in ``server.json``."""

    def locate(self) -> Steps[HubAddress]:
        """The address in ``server.json``, if this workspace's hub answers there; else its spool, if it looks there."""
        hint = _read_server_file(self.workspace.server_file)
        token = self.token or hint.auth_token
        base_url, socket_url = hint.base_url, None
        try:
            health = yield from _ask_health(base_url)
        except ProtocolUnknown:
            raise  # it runs, and through files it would say the same
        except HubNotRunning:
            by_file = spool_address(self.workspace)
            if by_file is None:
                raise
            base_url, socket_url, health = by_file, base_url, (yield from _ask_health(by_file, token))
        if health.db_id != self.db_id(self.workspace):
            raise HubNotRunning(
                f"The hub at {base_url} serves another workspace than {self.workspace.root}",
                url=base_url,
                db_id=health.db_id,
            )
        return HubAddress(base_url, token, health.db_id, health.instance_id, socket_url=socket_url)


@dataclass(frozen=True, slots=True)
class AtUrl:
    """A hub known by its address alone."""

    url: str
    token: Callable[[], str | None]
    """Asked at every look-up, since the token may have been rotated."""

    def locate(self) -> Steps[HubAddress]:
        """The address, if a hub of our protocol answers there."""
        base_url = self.url.rstrip("/")
        health = yield from _ask_health(base_url)
        return HubAddress(base_url, self.token(), health.db_id, health.instance_id)


def start_hub(folder: Path, *, idle_shutdown_ms: int | None, python: str = sys.executable) -> Steps[None]:
    """Starts a hub that outlives this process. One that somebody else started at the same moment is as good."""
    # -P: a module that lies in the current folder, which may be anybody's, is not imported.
    argv = [python, "-P", "-m", "parley", "up", "--workspace", str(folder), "--detach", "--json"]
    if idle_shutdown_ms is not None:
        argv += ["--idle-shutdown-ms", str(idle_shutdown_ms)]
    ended = yield Spawn(tuple(argv))
    assert isinstance(ended, Exited)
    if ended.code not in (Exit.OK, Exit.ALREADY_RUNNING):
        reason = ended.stderr.strip()[-STDERR_CHARS_MAX:] or f"exit code {ended.code}"
        raise StartupFailed(f"The hub of {folder} did not start: {reason}", exit_code=ended.code)


def start_and_reach(
    folder: Path, locate: Callable[[], Steps[HubAddress]], *, idle_shutdown_ms: int | None
) -> Steps[HubAddress]:
    """The address of a hub that was started now, by us or by somebody else."""
    for _ in range(START_TRIES_MAX):
        yield from start_hub(folder, idle_shutdown_ms=idle_shutdown_ms)
        waited = 0.0
        while waited < ANSWER_SECONDS_MAX:
            try:
                return (yield from locate())
            except ProtocolUnknown:
                raise
            except HubNotRunning:
                waited += ANSWER_POLL_SECONDS
            yield Pause(ANSWER_POLL_SECONDS)
        # Whoever holds the workspace is not a hub that starts but one that stops; its place will be free.
    raise HubNotRunning(f"The hub of {folder} does not answer, and no other can be started", workspace=str(folder))


def _read_server_file(path: Path) -> ServerFile:
    try:
        return untrusted_json.decode(path.read_bytes(), ServerFile)
    except FileNotFoundError:
        raise HubNotRunning(f"No hub is running for {path.parent.parent}", server_file=str(path)) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise HubNotRunning(f"{path} cannot be read: {error}", server_file=str(path)) from error


def _ask_health(base_url: str, token: str | None = None) -> Steps[Health]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    outcome = yield from exchange(Request("GET", f"{base_url}/health", headers))
    if not isinstance(outcome, Reply):
        raise HubNotRunning(f"No hub answers at {base_url}: {outcome.message}", url=base_url) from outcome
    try:
        health = untrusted_json.decode(outcome.body, Health)
    except msgspec.MsgspecError:
        raise HubNotRunning(f"What answers at {base_url} is not a hub", url=base_url) from None
    if health.protocol_version != PROTOCOL_VERSION:
        raise ProtocolUnknown(
            f"The hub at {base_url} speaks protocol {health.protocol_version}, this client {PROTOCOL_VERSION}",
            url=base_url,
            protocol_version=health.protocol_version,
        )
    return health
