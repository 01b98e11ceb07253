"""Replacing the token of a workspace: by its hub if one runs, so that it takes effect at once, else in the file."""

from typing import NamedTuple

from parley.client import Client
from parley.core.clock import Clock, SystemClock
from parley.core.errors import HubNotRunning
from parley.core.instance_lock import probe
from parley.serve.token import TokenStore
from parley.workspace.layout import Workspace


class Rotated(NamedTuple):
    """Whether a hub runs, and for how long it still takes the old token."""

    hub_running: bool
    grace_seconds: float


def rotate_token(workspace: Workspace, clock: Clock | None = None) -> Rotated:
    """Replaces the token. Raises what the client raises when the hub runs but cannot be spoken to."""
    if probe(workspace.lock) is not None:
        try:
            with Client(workspace.root) as client:
                return Rotated(True, client.rotate_token().grace_seconds)
        except HubNotRunning:
            if probe(workspace.lock) is not None:
                raise
    store = TokenStore(workspace.token, clock or SystemClock(), 0.0)
    store.load()
    store.rotate()
    return Rotated(False, 0.0)
