"""The exit codes of every command, in one table.

A service manager must not restart a process that ended with a code from 20 to 29:
the start was refused for a reason that another try cannot change.
"""

from enum import IntEnum


class Exit(IntEnum):
    """What a command's exit code means. The docstring of each member is printed in the docs."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "Exit":
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "success, or the asked state was already there"
    ERROR = 1, "error or wrong usage"
    CONFLICT = 2, "version conflict: somebody else changed it first"
    UNREACHABLE = 3, "the hub or the daemon is not running or cannot be reached"
    UNAUTHORISED = 4, "the token is missing or wrong"
    DAMAGE = 5, "an audit found damage"
    ALREADY_RUNNING = 10, "another process already serves this"
    SCHEMA_TOO_NEW = 20, "the database was written by a newer Parley"
    CORRUPT = 21, "the database is damaged; run `parley doctor --repair`"
    CONFIG_INVALID = 22, "parley.toml has an unknown key or a bad value"
    MIGRATION_FAILED = 23, "a schema change failed and was rolled back"
    BIND_REFUSED = 24, "the address to listen on is not allowed"
    WORKSPACE_UNSAFE = (
        25,
        "the server's folder cannot be trusted or used, or its files were taken away under it",
    )
    PLUGIN_UNAVAILABLE = 26, "a plugin that the workspace requires cannot run"
    HOST_MISMATCH = 27, "the daemon's folder was made on another machine"
    FEATURE_REFUSED = 28, "the broker lacks a feature that the daemon requires"
    MEMBERSHIP_LOST = 29, "the member was removed from its mesh, or runs elsewhere"
