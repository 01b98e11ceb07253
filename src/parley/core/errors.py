"""Every failure of the product, as one tree of exceptions.

Retry logic, HTTP answers and exit codes look at the class attributes and at nothing else::

    ParleyError                      code, status, exit_code, transient, hint, details
    ├── Refused                      the caller must change something (4xx)
    │   ├── InvalidInput             ├── PayloadTooLarge       ├── UnsupportedMediaType
    │   ├── NotFound                 ├── MethodNotAllowed      ├── MessageDeleted
    │   ├── CrossChannelMove         ├── VersionConflict       ├── IdempotencyKeyReused
    │   ├── MissingAuth              ├── InvalidAuth           ├── HostForbidden
    │   ├── OriginForbidden          ├── CursorExpired         ├── MessageArchived
    │   ├── LoginCodeInvalid         ├── AgentNameTaken        ├── LeaseConflict
    │   ├── LeaseLost                ├── TaskHeld              ├── TaskNotHeld
    │   ├── TaskClosed               └── SpoolRefused
    ├── Unavailable                  the same call may work later (429, 503)
    │   ├── RateLimited              ├── ServiceUnavailable    ├── ShuttingDown
    │   ├── DatabaseCorrupt          (not transient: a person must act)
    │   └── FilesLost                (another one)
    ├── InternalError                a fault of ours (500)
    └── LocalError                   never crosses the wire: start-up and client side
        ├── HubNotRunning            ├── ConnectionFailed      ├── WriterLockHeld
        ├── WorkspaceNotFound        ├── WorkspaceUnsafe       ├── SchemaTooNew
        ├── MigrationFailed          ├── ConfigInvalid         ├── BindRefused
        ├── StartupFailed            ├── HubRunning            ├── PluginUnavailable
        ├── PluginFailed             ├── SetupRefused          ├── GuardRefused
        ├── ClientClosed
        ├── AnswerLate               (a ConnectionFailed: somebody is there)
        ├── AgentlipRunning          (a WriterLockHeld with another hint)
        └── ProtocolUnknown          (a HubNotRunning that neither waiting nor starting a hub can help)

The tree goes on in ``broker_errors``, ``bus_errors``, ``daemon_errors`` and ``pipeline_errors``. A class with a
``code`` of its own is registered in ``ERRORS``; docs, OpenAPI and tests are made from that table.
"""

from typing import ClassVar, Final, Literal

from parley.core.exits import Exit

ERRORS: Final[dict[str, "type[ParleyError]"]] = {}


class ParleyError(Exception):
    """Base of the tree. ``str(error)`` is the sentence a person reads; ``details`` is for programs."""

    code: ClassVar[str] = ""
    status: ClassVar[int] = 500
    exit_code: ClassVar[Exit] = Exit.ERROR
    transient: ClassVar[bool] = False
    on_wire: ClassVar[bool] = True
    spoken_by: ClassVar[str] = "hub"
    """Whose protocol documents the code: ``hub``, ``broker``, ``bus`` or ``daemon``. The others may use it, too."""
    hint: str = ""
    """What to do next, in words for a person."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "code" in cls.__dict__:
            known = ERRORS.setdefault(cls.code, cls)
            if known is not cls and not issubclass(cls, known):
                raise TypeError(f"error code {cls.code} is taken by {known.__name__}")

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class Refused(ParleyError):
    """The caller must change something before trying again."""

    status = 400


class InvalidInput(Refused):
    """A field, parameter or body is not valid."""

    code = "INVALID_INPUT"
    hint = "Correct the named field and send the request again."


class UnsupportedMediaType(InvalidInput):
    """The body is not declared as JSON. It shares the code of invalid input, as existing clients expect."""

    status = 415
    hint = "Send the header Content-Type: application/json."


class PayloadTooLarge(Refused):
    """The body, the content or the metadata is larger than its limit."""

    code = "PAYLOAD_TOO_LARGE"
    status = 413
    hint = "Send less, or raise the limit in the settings of the server that refused it."


class NotFound(Refused):
    """No such channel, topic, message, task, lease, agent, plugin or path."""

    code = "NOT_FOUND"
    status = 404
    hint = (
        "Check the id or the name; `parley channel list`, `topic list`, `task list`, `lease list`, `agent list` and "
        "`plugin list` show what exists, and `parley search` finds messages."
    )


class MethodNotAllowed(Refused):
    """The path exists, but not with this method."""

    code = "METHOD_NOT_ALLOWED"
    status = 405
    hint = "Use one of the methods in the Allow header."

    def __init__(self, method: str, allow: list[str]) -> None:
        self.allow = allow
        super().__init__(f"{method} is not allowed here", allow=allow)


class MessageDeleted(Refused):
    """A deleted message cannot be edited."""

    code = "MESSAGE_DELETED"
    hint = "Post a new message instead."


class CrossChannelMove(Refused):
    """A message can move only between topics of its own channel."""

    code = "CROSS_CHANNEL_MOVE"
    hint = "Choose a topic of the same channel."


class VersionConflict(Refused):
    """The message changed since the caller read it."""

    code = "VERSION_CONFLICT"
    status = 409
    exit_code = Exit.CONFLICT
    hint = "Read the message again, then repeat the change with its current version."

    def __init__(self, message_id: str, *, expected: int, current: int) -> None:
        self.current_version = current
        super().__init__(
            f"Version conflict for message {message_id}: expected {expected}, current {current}",
            expected=expected,
            current=current,
            current_version=current,
            message_id=message_id,
        )


class IdempotencyKeyReused(Refused):
    """The idempotency key belongs to a different request."""

    code = "IDEMPOTENCY_KEY_REUSED"
    status = 409
    hint = "Use a new key for a new request; a retry must repeat the first request unchanged."


class MissingAuth(Refused):
    """The request carries no usable credentials."""

    code = "MISSING_AUTH"
    status = 401
    exit_code = Exit.UNAUTHORISED
    hint = "Send Authorization: Bearer with the token from the workspace's token file."


class InvalidAuth(Refused):
    """The token is wrong or no longer valid."""

    code = "INVALID_AUTH"
    status = 401
    exit_code = Exit.UNAUTHORISED
    hint = "Read the token file again; it may have been rotated."


class LoginCodeInvalid(Refused):
    """The one-time code was used already, is too old, or was never issued."""

    code = "LOGIN_CODE_INVALID"
    status = 401
    exit_code = Exit.UNAUTHORISED
    hint = "Run `parley ui` again for a new link."


class SpoolRefused(Refused):
    """A request that came as a file is malformed, too old, or was executed already."""

    code = "SPOOL_REFUSED"
    status = 409
    hint = "Write a new request; each file is executed once, by the hub that was running when it was written."


class HostForbidden(Refused):
    """The Host header names something other than this machine's loopback."""

    code = "HOST_FORBIDDEN"
    status = 403
    hint = "Call the hub by 127.0.0.1, [::1] or localhost."


class OriginForbidden(Refused):
    """The request was made by a page of another origin."""

    code = "ORIGIN_FORBIDDEN"
    status = 403
    hint = "Call the hub from a program, or open its own page with `parley ui`."


class CursorExpired(Refused):
    """The events after this cursor were moved to an archive."""

    code = "CURSOR_EXPIRED"
    status = 410
    hint = "Read the older events from the named archive, then resume from oldest_cursor."


class MessageArchived(Refused):
    """A retry with the same key: the first request succeeded, but its message has since been moved to an archive."""

    code = "MESSAGE_ARCHIVED"
    status = 410
    hint = "Treat the request as done; event_id is its event. The message is in the named archive or an earlier one."


class AgentNameTaken(Refused):
    """Another live session uses this name."""

    code = "AGENT_NAME_TAKEN"
    status = 409
    exit_code = Exit.CONFLICT
    hint = "Register under the name in details.suggestion, or use `force` if you know that the other session is dead."


class TaskHeld(Refused):
    """Somebody else holds the task, and their claim has not ended."""

    code = "TASK_HELD"
    status = 409
    exit_code = Exit.CONFLICT
    hint = "Take another task, wait for lease_expires_at, or take it over with `force` and a reason."


class TaskNotHeld(Refused):
    """The caller does not hold the task: its claim has ended, was taken over, or was replaced by a newer one."""

    code = "TASK_NOT_HELD"
    status = 409
    exit_code = Exit.CONFLICT
    hint = "Stop working on it. Claim it again if nobody else holds it, and use the generation of that claim."


class TaskClosed(Refused):
    """The task is completed or cancelled."""

    code = "TASK_CLOSED"
    status = 409
    exit_code = Exit.CONFLICT
    hint = "If there is more to do, create a new task."


class LeaseConflict(Refused):
    """Someone else has reserved a path that the patterns cover. Nothing was reserved."""

    code = "LEASE_CONFLICT"
    status = 409
    exit_code = Exit.CONFLICT
    hint = "Work on something else, ask the holder in details.conflicts, or wait until it expires."


class LeaseLost(Refused):
    """The caller does not hold the lease, or it was released or has expired."""

    code = "LEASE_LOST"
    status = 409
    exit_code = Exit.CONFLICT
    hint = "Stop writing to these paths. Acquire a new lease, and check what has changed before you go on."


class Unavailable(ParleyError):
    """The same call may work later."""

    status = 503
    transient = True
    retry_after_seconds: float = 1.0


class RateLimited(Unavailable):
    """Too many requests in the current second."""

    code = "RATE_LIMITED"
    status = 429
    hint = "Wait for the time in Retry-After, or raise rate_limits in parley.toml."

    def __init__(self, *, limit: int, retry_after: float) -> None:
        super().__init__("Rate limit exceeded", limit=limit, window="1s", retry_after=retry_after)
        self.retry_after_seconds = retry_after


FILE_HINTS: Final = {
    "exists": "Name a file that does not exist yet.",
    "not_prepared": "Run `parley up`, which prepares it; if it held data before, restore a backup first.",
    "cannot_open": "Check that the folder exists and that you may read and write there.",
    "read_only": "Check the permissions of the file and its folder.",
    "io_error": "Check the path, its permissions, and the disk.",
    "disk_full": "Free some space, then run the command again.",
    "busy": "Another process is using the database; run the command again in a moment.",
    "unmerged_wal": "Copy the database and its -wal file to a folder that can be written.",
}
"""What to do about a file that this process itself could not use, by reason: there is no Retry-After to wait for."""


class ServiceUnavailable(Unavailable):
    """The database cannot take the write now: busy, full, or the queue is at its limit."""

    code = "SERVICE_UNAVAILABLE"
    hint = "Nothing was written. Try again after Retry-After; `parley doctor` shows the reason."

    def __init__(self, message: str, *, reason: str, retry_after: float = 1.0, **details: object) -> None:
        super().__init__(message, reason=reason, **details)
        self.retry_after_seconds = retry_after
        self.hint = FILE_HINTS.get(reason, type(self).hint)  # one that a hub answered with was not made here


class ShuttingDown(Unavailable):
    """The server is stopping and accepts no new work."""

    code = "SHUTTING_DOWN"
    retry_after_seconds = 10.0
    hint = "Try again when the hub is running again."

    def __init__(self, message: str = "The server is shutting down") -> None:
        super().__init__(message)


class DatabaseCorrupt(Unavailable):
    """The database is damaged; the hub has stopped serving it."""

    code = "DATABASE_CORRUPT"
    transient = False
    exit_code = Exit.CORRUPT
    hint = "Run `parley doctor --repair`; if it cannot repair, restore a backup."


class FilesLost(Unavailable):
    """A file was removed, replaced or cut short while the server was using it; nothing is acknowledged any more."""

    code = "FILES_LOST"
    transient = False
    exit_code = Exit.WORKSPACE_UNSAFE
    hint = (
        "The server stops. Put the named file back as it was, or restore a backup, then start the server again."
        " Requests without an answer may or may not have taken effect."
    )

    def __init__(self, path: str, reason: Literal["removed", "replaced", "cut short", "out of reach"]) -> None:
        what = (
            "cannot be reached any more" if reason == "out of reach" else f"was {reason} while the server was using it"
        )
        super().__init__(f"{path} {what}", path=path, reason=reason)


class InternalError(ParleyError):
    """A bug in the server. The log has the details under the request id."""

    code = "INTERNAL_ERROR"
    hint = "Report it with the request id."

    def __init__(self, message: str = "Internal error", **details: object) -> None:
        super().__init__(message, **details)


class LocalError(ParleyError):
    """Start-up and client-side failures; these never cross the wire."""

    on_wire = False


class HubNotRunning(LocalError):
    """No hub serves this workspace."""

    code = "HUB_NOT_RUNNING"
    exit_code = Exit.UNREACHABLE
    transient = True
    hint = "Start one with `parley up`."


class ProtocolUnknown(HubNotRunning):
    """The hub is running, but speaks a version of the protocol that this client does not know."""

    transient = False
    hint = "Upgrade with `pip install -U parley-mesh`, then start this program again."


class ConnectionFailed(LocalError):
    """The hub did not answer."""

    code = "CONNECTION_FAILED"
    exit_code = Exit.UNREACHABLE
    transient = True
    hint = "Check it with `parley status`."


class AnswerLate(ConnectionFailed):
    """Somebody is there, but did not answer in time. What was asked for may have happened, or may happen yet."""


class ClientClosed(LocalError):
    """The client was closed and takes no more calls."""

    code = "CLIENT_CLOSED"
    hint = "Make a new client, or close this one later."


class WriterLockHeld(LocalError):
    """Another process serves this workspace already."""

    code = "WRITER_LOCK_HELD"
    exit_code = Exit.ALREADY_RUNNING
    hint = "Use the running hub, or stop it with `parley down`."


class AgentlipRunning(WriterLockHeld):
    """An Agentlip hub serves this workspace: the same refusal with a different remedy."""

    hint = "Stop that process, then run the command again; `parley down` stops only Parley's own hubs."


class HubRunning(LocalError):
    """The command needs the workspace to itself, and a hub is running."""

    code = "HUB_RUNNING"
    hint = "Stop the hub with `parley down`, then run the command again."


class WorkspaceNotFound(LocalError):
    """No workspace was found here or above."""

    code = "WORKSPACE_NOT_FOUND"
    hint = "Create one with `parley init`."


class WorkspaceUnsafe(LocalError):
    """The state folder belongs to someone else, is a link out of the workspace, or cannot be written."""

    code = "WORKSPACE_UNSAFE"
    exit_code = Exit.WORKSPACE_UNSAFE
    hint = "Check the owner and the mode of the state folder."


class SchemaTooNew(LocalError):
    """The database was written by a newer Parley."""

    code = "SCHEMA_TOO_NEW"
    exit_code = Exit.SCHEMA_TOO_NEW
    hint = "Upgrade with `pip install -U parley-mesh`, or restore a backup made before the upgrade."


class MigrationFailed(LocalError):
    """A schema change failed; the database is as it was before."""

    code = "MIGRATION_FAILED"
    exit_code = Exit.MIGRATION_FAILED
    hint = "The named backup holds the database as it was before the attempt."


class ConfigInvalid(LocalError):
    """parley.toml has an unknown key or a bad value."""

    code = "CONFIG_INVALID"
    exit_code = Exit.CONFIG_INVALID
    hint = "Correct the named key; docs/operations.md lists all settings."


class PluginFailed(LocalError):
    """A plugin could not be started, or failed on a message."""

    code = "PLUGIN_FAILED"
    hint = "Run it by itself with `parley plugin test NAME`; docs/plugins.md says what a plugin may do."


class BindRefused(LocalError):
    """The address is not a loopback address."""

    code = "BIND_REFUSED"
    exit_code = Exit.BIND_REFUSED
    hint = "Bind 127.0.0.1 or ::1, or pass --unsafe-network if you accept the risk."


class StartupFailed(LocalError):
    """The hub could not start for another reason."""

    code = "STARTUP_FAILED"
    hint = "Read the reason; `parley doctor` checks the workspace."


class PluginUnavailable(LocalError):
    """A plugin that the workspace requires cannot run."""

    code = "PLUGIN_UNAVAILABLE"
    exit_code = Exit.PLUGIN_UNAVAILABLE
    hint = "`parley doctor` says what is wrong with it; `parley trust` lets the workspace's own plugins run."


class SetupRefused(LocalError):
    """A file of an agent program cannot be changed without damaging what is in it; nothing was touched."""

    code = "SETUP_REFUSED"
    hint = "Correct the named file, or move it aside, then run the command again."


class GuardRefused(LocalError):
    """The guard cannot be installed in this repository, or removed from it, without damaging what is there."""

    code = "GUARD_REFUSED"
    hint = "Run it in a git repository that contains the workspace; `parley guard status` shows what is there."
