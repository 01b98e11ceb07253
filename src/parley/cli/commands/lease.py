"""``parley lease``: paths that somebody has reserved for a while."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from parley.cli.call import Call, command, group
from parley.cli.choices import AgentOption, GenerationOption, LimitOption, ReasonOption, TtlOption
from parley.cli.plain import plain
from parley.core.errors import InvalidInput
from parley.core.exits import Exit
from parley.core.limits import PAGE_LIMIT_MAX

if TYPE_CHECKING:
    from parley.client import Client
    from parley.wire.entities import Lease

app = group("Reserve paths, and see who has.")

LeaseArgument = Annotated[str, typer.Argument(metavar="LEASE", help="The lease.")]
PatternsArgument = Annotated[
    list[str], typer.Argument(metavar="PATTERN...", help="Paths from the workspace's root, with * ** ? [abc].")
]


@command(app, "acquire")
def acquire(
    call: Call,
    patterns: PatternsArgument,
    shared: Annotated[bool, typer.Option("--shared", help="Others may share them; none may have them alone.")] = False,
    reason: ReasonOption = None,
    ttl: TtlOption = None,
    agent: AgentOption = None,
) -> None:
    """Reserve paths, all of them or none; exit code 2 if somebody else has."""
    with call.client(call.agent(agent)) as client:
        result = client.acquire_lease(
            patterns, mode="shared" if shared else "exclusive", reason=reason, ttl_seconds=ttl
        )
    if call.json:
        call.out.data({"lease": plain(result.lease), "event_id": result.event_id})
    else:
        call.out.line(f"{result.lease.id}\tuntil {result.lease.expires_at}")


@command(app, "list")
def list_leases(
    call: Call,
    status: Annotated[
        Literal["active", "released", "expired", "all"], typer.Option("--status", help="Only these.")
    ] = "active",
    holder: Annotated[str | None, typer.Option("--holder", metavar="NAME", help="Only what this agent has.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List leases as they are now, the newest first."""
    from parley.core.clock import SystemClock, iso
    from parley.workspace import queries

    now = iso(SystemClock().now_ms())
    with call.reading() as reading:
        chosen = None if status == "all" else status
        leases, has_more = queries.list_leases(reading, now=now, status=chosen, holder=holder, limit=limit)
    if call.json:
        call.out.listing("leases", plain(leases), hasMore=has_more)
    else:
        call.out.table(
            ["id", "holder", "mode", "status", "until", "paths", "reason"],
            [
                [each.id, each.holder, each.mode, each.status, each.expires_at, " ".join(each.patterns), each.reason]
                for each in leases
            ],
            empty="No leases.",
            has_more=has_more,
        )


@command(app, "check")
def check(
    call: Call,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Paths from the workspace's root.")],
    alone: Annotated[bool, typer.Option("--alone", help="Also name shared leases.")] = False,
    agent: AgentOption = None,
) -> int:
    """Tell whose leases are in the way of some paths; exit code 2 if any is. Needs no hub."""
    from parley.client import Client

    with Client(call.workspace()) as client:
        result = client.check_paths(paths, call.agent(agent), mode="exclusive" if alone else "shared")
    if call.json:
        call.out.data({"checked": result.checked, "hits": plain(result.hits)})
    else:
        call.out.table(
            ["path", "holder", "mode", "until", "pattern", "reason"],
            [[hit.wanted, hit.holder, hit.mode, hit.expires_at, hit.pattern, hit.reason] for hit in result.hits],
            empty="Nobody else has reserved these paths.",
        )
    return Exit.CONFLICT if result.hits else Exit.OK


@command(app, "renew")
def renew(
    call: Call,
    lease_id: LeaseArgument,
    ttl: TtlOption = None,
    generation: GenerationOption = None,
    agent: AgentOption = None,
) -> None:
    """Go on holding a lease."""
    with call.client(call.agent(agent)) as client:
        chosen = generation if generation is not None else client.get_lease(lease_id).lease.generation
        result = client.renew_lease(lease_id, chosen, ttl_seconds=ttl)
    if call.json:
        call.out.data({"lease": plain(result.lease)})
    else:
        call.out.line(f"{result.lease.id}\tuntil {result.lease.expires_at}")


@command(app, "release")
def release(
    call: Call,
    lease_id: Annotated[str | None, typer.Argument(metavar="LEASE", help="The lease.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that the agent has.")] = False,
    reason: ReasonOption = None,
    generation: GenerationOption = None,
    agent: AgentOption = None,
) -> None:
    """Give paths back."""
    if (lease_id is None) != every:
        raise InvalidInput("Give a LEASE or --all.")
    name = call.agent(agent)
    with call.client(name) as client:
        chosen = _all_of(client, name) if lease_id is None else [client.get_lease(lease_id).lease]
        given = [each.generation if generation is None else generation for each in chosen]
        released = [
            client.release_lease(lease.id, number, reason=reason).lease
            for lease, number in zip(chosen, given, strict=True)
        ]
    if call.json:
        call.out.listing("leases", plain(released))
    else:
        for lease in released:
            call.out.line(f"{lease.id}\t{lease.status}")


def _all_of(client: "Client", holder: str) -> "list[Lease]":
    """Every lease that the holder has now, however many pages they fill."""
    page = client.list_leases(holder=holder, limit=PAGE_LIMIT_MAX)
    found = list(page.leases)
    while page.has_more:
        page = client.list_leases(holder=holder, limit=PAGE_LIMIT_MAX, cursor=page.cursor)
        found += page.leases
    return found
