"""What a broker answers over HTTP: how it is, and the two things that are asked before there is a member to connect."""

import hmac
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import msgspec

from parley.broker.line import Line
from parley.broker.rules.founding import FoundMesh, Join
from parley.broker.rules.mesh_limits import ChangeLimits, all_limits
from parley.broker.rules.roster_founding import TakeRoster
from parley.broker.server import CONNECTIONS_MAX, Broker
from parley.core.broker_errors import (
    CreationRefused,
    InviteRefused,
    OperatorOnly,
    QuotaExceeded,
    RosterClock,
    RosterRefused,
)
from parley.core.clock import Clock
from parley.core.errors import NotFound, OriginForbidden, RateLimited, ServiceUnavailable, ShuttingDown
from parley.serve import DiskWatch, InFlight, RateLimiter
from parley.serve.connections import Connections
from parley.serve.disk import FULL_BYTES
from parley.serve.door import Door, Visit
from parley.serve.endpoint import Answer, Call, Endpoint
from parley.serve.limiter import Key
from parley.serve.openapi import About, openapi_document
from parley.serve.shell import Shell, too_many
from parley.wire.mesh_http import (
    HEALTH_PATH,
    JOIN_PATH,
    MESHES_PATH,
    READY_PATH,
    ROSTERS_PATH,
    BrokerHealth,
    BrokerReady,
    CreateMesh,
    FoundRoster,
    Joined,
    JoinMesh,
    MeshCreated,
    Meshes,
    MeshLimits,
    RosterFounded,
    SetLimits,
)

BODY_BYTES_MAX: Final = 16 * 1024
SOCKET_PATH: Final = "/ws"
METRICS_PATH: Final = "/metrics"
OPENAPI_PATH: Final = "/openapi.json"
ABOUT: Final = About(
    "Parley broker", "What is asked of a broker before there is a member to connect", errors=(RateLimited,)
)


@dataclass(frozen=True)
class HttpSettings:
    """What the routes need to know beyond the broker."""

    creation_token: str
    open_creation: bool
    public_url: str
    version: str
    disk: DiskWatch
    keeps_file: bool = True
    """Whether what it accepts goes onto that disk; a database has its own."""
    trusted_proxy: bool = False
    """Whether a proxy in front of it says who asks."""
    key: str = ""
    """The broker's public key."""


class Front:
    """A broker with what its routes need."""

    def __init__(self, broker: Broker, settings: HttpSettings) -> None:
        self.broker = broker
        self.settings = settings

    @cached_property
    def openapi_json(self) -> bytes:
        return msgspec.json.encode(openapi_document(ENDPOINTS, ABOUT))


class BrokerDoor(Door):
    """Whom a broker lets in. Who may send and receive is settled on the WebSocket; here only operators have a token."""

    def __init__(self, front: Front, clock: Clock, in_flight: InFlight) -> None:
        policy = front.broker.policy
        budget = (policy.http_per_address, policy.http_overall, clock)
        super().__init__(in_flight=in_flight, limiter=RateLimiter(*budget), strangers=RateLimiter(*budget))
        self._settings = front.settings

    json_only = False  # no page can call a broker, and whoever types a request by hand may leave the header out

    @property
    def body_bytes_max(self) -> int:
        return BODY_BYTES_MAX

    def check_source(self, visit: Visit) -> None:
        # A broker has whatever names its users gave it, so its Host tells nothing.
        if visit.is_by_page:
            raise OriginForbidden("Web pages may not call a broker")

    def admit(self, endpoint: Endpoint[Any], visit: Visit) -> Key | None:
        creates = endpoint.path in (MESHES_PATH, ROSTERS_PATH) and endpoint.method == "POST"
        if not (creates and self._settings.open_creation) and not self._has_token(visit):
            if creates:
                raise CreationRefused("Creating a mesh needs the broker's creation token")
            raise OperatorOnly("Only the broker's operator can see or change the limits of its meshes")
        return self.address(visit)

    def admit_stranger(self, endpoint: Endpoint[Any], visit: Visit) -> None:
        visit.take(self.strangers, self.address(visit))

    def admit_upgrade(self, visit: Visit) -> Key | None:
        visit.take(self.strangers, self.address(visit))  # who it is comes with its first frame
        return None

    def address(self, visit: Visit) -> str:
        if self._settings.trusted_proxy:
            # The last one in the list is the one that our proxy saw; what stands before it anybody may have written.
            said = visit.headers.get(b"x-forwarded-for", b"").rpartition(b",")[2].strip()
            if said:
                return said.decode("latin-1")
        return visit.address

    def _has_token(self, visit: Visit) -> bool:
        return hmac.compare_digest(visit.token, self._settings.creation_token.encode())


def broker_shell(front: Front, clock: Clock, in_flight: InFlight) -> Shell[Front]:
    """The routes and the WebSocket of one broker."""
    broker = front.broker

    def open_socket(visit: Visit, connections: Connections) -> Line:
        if broker.connections >= CONNECTIONS_MAX:
            raise too_many("connections", CONNECTIONS_MAX)
        return Line(broker, visit, connections, shell.common_headers)

    shell = Shell(
        front,
        ENDPOINTS,
        BrokerDoor(front, clock, in_flight),
        log=broker.log,
        metrics=broker.metrics,
        metric_prefix="parley_broker",
        headers=((b"x-instance-id", broker.setting.broker_instance.encode()),),
        upgrades={SOCKET_PATH: open_socket},
    )
    return shell


async def health(front: Front, call: Call) -> Answer:
    setting, problems = front.broker.setting, front.settings.disk.seen.problems
    status = "degraded" if problems else "ok"
    return Answer(
        200,
        BrokerHealth(
            status,
            front.settings.version,
            setting.broker_id,
            setting.broker_instance,
            problems,
            front.settings.key,
        ),
    )


async def ready(front: Front, call: Call) -> Answer:
    if front.broker.stopping:
        raise ShuttingDown("The broker is shutting down")
    look = front.settings.disk.now()
    if front.settings.keeps_file and look.disk.free_bytes < FULL_BYTES:
        raise ServiceUnavailable("The broker's disk is full", reason="disk_full", free_bytes=look.disk.free_bytes)
    await front.broker.gate.run(lambda tx: tx.one("SELECT value FROM meta WHERE key = 'epoch'"))
    return Answer(200, BrokerReady("ready", look.problems))


async def metrics(front: Front, call: Call) -> Answer:
    shown = front.broker.metrics
    return Answer(200, shown.render(), shown.content_type.encode())


async def openapi(front: Front, call: Call) -> Answer:
    return Answer(200, front.openapi_json)


async def create_mesh(front: Front, call: Call) -> Answer:
    asked = cast(CreateMesh, call.body)
    rule = FoundMesh(asked.slug, asked.name, front.settings.public_url, front.broker.policy, secrets.token_bytes(32))
    mesh, invite = await front.broker.gate.run(rule)
    return Answer(201, MeshCreated(mesh.mesh_id, mesh.slug, invite))


async def take_roster(front: Front, call: Call) -> Answer:
    taken = await front.broker.gate.run(TakeRoster(cast(FoundRoster, call.body), front.broker.policy))
    return Answer(201 if taken.created else 200, taken.answer)


async def list_meshes(front: Front, call: Call) -> Answer:
    return Answer(200, Meshes(await front.broker.gate.run(all_limits)))


async def change_limits(front: Front, call: Call) -> Answer:
    return Answer(200, await front.broker.gate.run(ChangeLimits(cast(SetLimits, call.body))))


async def join(front: Front, call: Call) -> Answer:
    done = await front.broker.gate.run(Join(cast(JoinMesh, call.body)))
    for notice in done.notices:
        front.broker.tell(done.mesh_id, notice)
    return Answer(201 if done.result["created"] else 200, done.result["joined"])


ENDPOINTS: Final[tuple[Endpoint[Front], ...]] = (
    Endpoint(
        "GET",
        HEALTH_PATH,
        health,
        "whether the process answers: version, broker id, and what is degraded; never asks the database",
        {200: BrokerHealth},
        public=True,
    ),
    Endpoint(
        "GET",
        READY_PATH,
        ready,
        "200 when the database answers, its disk has room and nobody stops the broker; else 503",
        {200: BrokerReady},
        (ServiceUnavailable, ShuttingDown),
        public=True,
    ),
    Endpoint(
        "GET",
        METRICS_PATH,
        metrics,
        "metrics in Prometheus' text form",
        {200: bytes},
        public=True,
        content_type="text/plain",
    ),
    Endpoint("GET", OPENAPI_PATH, openapi, "this API as an OpenAPI document", {200: dict}, public=True),
    Endpoint(
        "POST",
        MESHES_PATH,
        create_mesh,
        "make a mesh; needs the creation token unless everybody may create",
        {201: MeshCreated},
        (CreationRefused,),
        body=CreateMesh,
    ),
    Endpoint(
        "POST",
        ROSTERS_PATH,
        take_roster,
        "carry a mesh that has a roster, by its first entries; needs the creation token unless everybody may create",
        {201: RosterFounded, 200: RosterFounded},
        (CreationRefused, RosterRefused, RosterClock),
        body=FoundRoster,
    ),
    Endpoint(
        "GET",
        MESHES_PATH,
        list_meshes,
        "all meshes with their limits; needs the creation token, whoever may create",
        {200: Meshes},
        (OperatorOnly,),
    ),
    Endpoint(
        "PATCH",
        MESHES_PATH,
        change_limits,
        "change what a mesh may hold; needs the creation token, whoever may create",
        {200: MeshLimits},
        (OperatorOnly, NotFound),
        body=SetLimits,
    ),
    Endpoint(
        "POST",
        JOIN_PATH,
        join,
        "become a member by an invite",
        {201: Joined, 200: Joined},
        (InviteRefused, QuotaExceeded),
        body=JoinMesh,
        public=True,
    ),
)
