"""Asking a hub how it is, without the client: a damaged or strange workspace must be examinable too."""

import http.client
from typing import Final, NamedTuple

import msgspec

from parley.core import untrusted_json
from parley.wire.answers import Health
from parley.wire.server_file import ServerFile
from parley.workspace.layout import Workspace

ANSWER_SECONDS: Final = 3.0


class Hint(NamedTuple):
    """What ``server.json`` says, or why it says nothing. Both are None when there is no such file."""

    server: ServerFile | None = None
    problem: str | None = None


def read_server_file(workspace: Workspace) -> Hint:
    """The hint of where the hub is."""
    try:
        return Hint(untrusted_json.decode(workspace.server_file.read_bytes(), ServerFile))
    except FileNotFoundError:
        return Hint()
    except OSError as error:
        return Hint(problem=f"cannot be read: {error.strerror}")
    except msgspec.MsgspecError as error:
        return Hint(problem=f"is not what a hub writes: {error}")


def ask_health(server: ServerFile) -> Health | str:
    """The hub's own account, or why there is none. No token is sent."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        body = answer.read()
        return untrusted_json.decode(body, Health)
    except (OSError, http.client.HTTPException) as error:
        return f"no answer from {server.base_url}: {error}"
    except msgspec.MsgspecError:
        return f"what answers at {server.base_url} is not a hub"
    finally:
        connection.close()
