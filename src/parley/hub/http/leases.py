"""Handlers for leases."""

from functools import partial
from typing import TYPE_CHECKING, cast, get_args

from parley.core.clock import iso
from parley.core.errors import NotFound
from parley.core.limits import PAGE_LIMIT_DEFAULT
from parley.core.patterns import normal_path
from parley.hub.http.reads import limit_of
from parley.hub.http.writes import once_of
from parley.hub.rules.leases import acquire_lease, release_lease, renew_lease
from parley.serve.endpoint import Answer, Call
from parley.wire.answers import Leases, OneLease, PathsChecked
from parley.wire.entities import LeaseStatus
from parley.wire.paging import offset_cursor, parse_cursor
from parley.wire.requests import AcquireLease, CheckPaths, ReleaseLease, RenewLease
from parley.workspace import queries
from parley.workspace.queries.leases import lease_at, leases_in_the_way

if TYPE_CHECKING:
    from parley.hub.hub import Hub

STATUSES = (*get_args(LeaseStatus), "all")


async def leases(hub: "Hub", call: Call) -> Answer:
    limit = limit_of(hub, call, PAGE_LIMIT_DEFAULT)
    offset = parse_cursor(call.query.text("cursor"), "rows").offset or 0
    status = call.query.choice("status", STATUSES)
    read = partial(
        queries.list_leases,
        now=iso(hub.clock.now_ms()),
        status=None if status == "all" else cast(LeaseStatus, status),
        holder=call.query.text("holder"),
        limit=limit,
        offset=offset,
    )
    found, more = hub.store.read(read)
    return Answer(200, Leases(found, more, offset_cursor(offset, limit, more)))


async def lease(hub: "Hub", call: Call) -> Answer:
    lease_id = call.path["lease_id"]
    found = hub.store.read(partial(queries.get_lease, lease_id=lease_id))
    if found is None:
        raise NotFound(f"Lease not found: {lease_id}", lease_id=lease_id)
    return Answer(200, OneLease(lease_at(found, iso(hub.clock.now_ms()))))


async def check_paths(hub: "Hub", call: Call) -> Answer:
    request = cast(CheckPaths, call.body)
    paths = list(map(normal_path, request.paths))
    now = iso(hub.clock.now_ms())
    read = partial(leases_in_the_way, now=now, holder=request.holder, paths=paths, mode=request.mode)
    return Answer(200, PathsChecked(len(paths), await hub.store.read_slow(read)))


async def post_lease(hub: "Hub", call: Call) -> Answer:
    request, settings = cast(AcquireLease, call.body), hub.settings.leases
    fields = {
        "sender": request.holder,
        "patterns": request.patterns,
        "mode": request.mode,
        "reason": request.reason,
        "ttl_seconds": request.ttl_seconds,
    }
    once = once_of(call, "lease.acquire", "", fields)
    result = await hub.store.write(lambda tx: acquire_lease(tx, request, settings, once))
    return Answer(200 if result.duplicate or result.event_id is None else 201, result)


async def patch_lease(hub: "Hub", call: Call) -> Answer:
    lease_id, request, settings = call.path["lease_id"], call.body, hub.settings.leases
    if isinstance(request, RenewLease):
        fields = {
            "sender": request.holder,
            "generation": request.generation,
            "ttl_seconds": request.ttl_seconds,
        }
        renewing = once_of(call, "lease.renew", lease_id, fields)
        return Answer(200, await hub.store.write(lambda tx: renew_lease(tx, lease_id, request, settings, renewing)))
    release = cast(ReleaseLease, request)
    fields = {"sender": release.holder, "generation": release.generation, "reason": release.reason}
    once = once_of(call, "lease.release", lease_id, fields)
    return Answer(200, await hub.store.write(lambda tx: release_lease(tx, lease_id, release, once)))
