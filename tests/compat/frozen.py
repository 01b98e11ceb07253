"""The public names as plain values, and what of an earlier snapshot is gone.

A snapshot may grow; nothing in it may disappear or change its meaning. ``PARLEY_UPDATE_SNAPSHOTS=1`` in the environment
of the tests writes the snapshots anew, and the difference is then seen in the commit.
"""

import json
import os
from pathlib import Path
from typing import Any

from parley.core.registry import registry
from parley.hub.http.table import ABOUT, ENDPOINTS
from parley.serve.openapi import openapi_document
from parley.wire.events import PAYLOADS
from tests.compat import contract

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = os.environ.get("PARLEY_UPDATE_SNAPSHOTS") == "1"
HOW_TO_RECORD = (
    "Somebody relies on that: keep it. What was added and is not seen by every run is not recorded yet:"
    " make the test see it each time, then write the snapshot with PARLEY_UPDATE_SNAPSHOTS=1."
)
VOLATILE = frozenset({"summary", "description", "title", "version", "x-unit"})
"""Words for people, which may get better."""
REQUESTS = frozenset(
    {
        "Ping",
        "CreateChannel",
        "CreateTopic",
        "RenameTopic",
        "CreateMessage",
        "EditMessage",
        "DeleteMessage",
        "MoveMessage",
        "AddAttachment",
        "StoreFindings",
        "FoundEnrichment",
        "FoundAttachment",
        "Login",
        "ReEnrich",
        "RegisterAgent",
        "HeartbeatAgent",
        "LeaveAgent",
        "CreateTask",
        "ClaimNext",
        "ClaimTask",
        "RenewTask",
        "ReleaseTask",
        "CompleteTask",
        "CancelTask",
        "TakeOverTask",
        "AcquireLease",
        "RenewLease",
        "ReleaseLease",
        "CheckPaths",
    }
)
"""Shapes of what clients send."""


def current() -> dict[str, Any]:
    """Each snapshot's name and what it would hold now."""
    names = registry()
    return {
        "openapi": openapi_document(ENDPOINTS, ABOUT),
        "events": {
            spec.name: {
                "entity": spec.entity,
                "scopes": sorted(spec.scopes),
                "fields": list(PAYLOADS[spec.name].__struct_fields__),
            }
            for spec in names.events
        },
        "close_codes": {str(entry.code): {"reconnect": entry.reconnect} for entry in names.close_codes},
        "broker_close_codes": {str(each.code): {"reconnect": each.reconnect} for each in names.broker_close_codes},
        "error_codes": {
            error.code: {"status": error.status, "exit_code": int(error.exit_code), "transient": error.transient}
            for error in names.errors
        },
        "exit_codes": {code.name: int(code) for code in names.exits},
        "settings": {spec.name: spec.kind.__name__ for spec in names.settings},
        "metrics": {spec.name: {"kind": spec.kind, "labels": list(spec.labels)} for spec in names.metrics},
    }


def path_of(name: str) -> Path:
    return SNAPSHOTS / f"{name}.json"


def write(name: str, value: Any) -> None:
    """Writes a snapshot in a form whose differences can be read."""
    SNAPSHOTS.mkdir(exist_ok=True)
    path_of(name).write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def frozen(name: str) -> Any:
    """A snapshot as it was committed."""
    return json.loads(path_of(name).read_text())


def held(name: str, now: Any) -> None:
    """Holds what crossed a wire to its snapshot. Raises with what somebody who relies on it would miss."""
    if UPDATE:
        write(name, now)
    lost = contract.losses(frozen(name), now)
    if lost:
        raise AssertionError("\n".join((f"{path_of(name).name} promises more than is there:", *lost, HOW_TO_RECORD)))


def losses(frozen: Any, now: Any) -> list[str]:
    """What the snapshot has and the present has not, or has with another value. Additions are no loss."""
    return _losses(frozen, now, "", (frozen, now))


def _losses(frozen: Any, now: Any, place: str, whole: tuple[Any, Any]) -> list[str]:
    if isinstance(frozen, dict) and isinstance(now, dict):
        found: list[str] = []
        for key, value in frozen.items():
            if key in VOLATILE and not isinstance(value, dict):
                continue
            if key not in now:
                found.append(f"{place}/{key} is gone")
            elif key == "$ref" and value != now[key]:
                # Another shape in its place will do if it has all that the first one had.
                found += _losses(_shape(whole[0], str(value)), _shape(whole[1], str(now[key])), place, whole)
            else:
                found += _losses(value, now[key], f"{place}/{key}", whole)
        return found + _stricter(frozen, now, place)
    if isinstance(frozen, list) and isinstance(now, list):
        return _list_losses(frozen, now, place, whole)
    return [] if frozen == now else [f"{place} was {frozen!r} and is {now!r}"]


def _list_losses(frozen: list[Any], now: list[Any], place: str, whole: tuple[Any, Any]) -> list[str]:
    if all(isinstance(item, dict) and "name" in item for item in [*frozen, *now]):
        before, after = ({item["name"]: item for item in items} for items in (frozen, now))
        return _losses(before, after, place, whole)
    return [f"{place} no longer has {item!r}" for item in frozen if item not in now]


def _shape(document: Any, reference: str) -> Any:
    return document["components"]["schemas"][reference.rpartition("/")[2]]


def _stricter(frozen: dict[str, Any], now: dict[str, Any], place: str) -> list[str]:
    """A member that a request need not have had must not become required; in an answer it is an addition."""
    if place.removeprefix("/components/schemas/") not in REQUESTS:
        return []
    added = set(now.get("required", [])) - set(frozen.get("required", []))
    return [f"{place} now requires {member!r}" for member in sorted(added)]
