"""The broker as a process, over real sockets: joining, talking, stopping, being killed, being refused."""

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import httpx
import msgspec
import pytest
import websockets

from bench.load.ports import lasting_port
from parley.broker.http import ENDPOINTS as BROKER_ROUTES
from parley.broker.line import FRAME_BYTES_MAX
from parley.core.daemon_errors import BrokerUnreachable
from parley.core.errors import InvalidInput
from parley.core.metrics import BROKER_METRICS
from parley.daemon.joining import create_mesh, join_mesh
from parley.serve import SECURITY_HEADERS
from parley.wire.broker import Accepted, ErrorFrame, Notice, Ping, Pong, RefusedSend
from tests.broker.process import SECONDS, Person, Process, broker, circle, connected
from tests.conformance.broker.circle import make_send
from tests.conformance.shell.lines import KEY, UPGRADE
from tests.postgres import Server


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One broker for the tests that leave it as it was; each makes a mesh of its own in it."""
    with broker(tmp_path_factory.mktemp("shared") / "broker", "--open-creation") as serving:
        yield serving


async def post(process: Process, path: str, body: object, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await client.post(f"{process.http}{path}", content=content, headers=headers)


async def get(process: Process, path: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client:
        return await client.get(f"{process.http}{path}", headers=headers)


async def test_a_mesh_is_made_joined_and_talked_in(process: Process) -> None:
    made = await post(process, "/v1/meshes", {"slug": "red", "name": "Red"})
    assert made.status_code == 201
    again = await post(process, "/v1/meshes", {"slug": "red", "name": "Red"})
    assert (again.status_code, again.json()["mesh_id"]) == (201, made.json()["mesh_id"])
    ann = Person("ann")
    assert (await ann.join(process.http, again.json()["invite"])).status_code == 201
    assert (await ann.join(process.http, again.json()["invite"])).status_code == 200
    taken = await post(process, "/v1/meshes", {"slug": "red", "name": "Red"})
    assert (taken.status_code, taken.json()["code"]) == (400, "INVALID_INPUT")
    late = await Person("late").join(process.http, again.json()["invite"])
    assert (late.status_code, late.json()["details"]["reason"]) == (403, "used_up")
    invite = ann.invites()
    bob = Person("bob")
    async with connected(ann, process.url) as first:
        await first.request("create_invite", invite=invite)
        await bob.join(process.http, invite)
        notice = await first.hear(Notice)
        while notice.name != "member_joined":
            notice = await first.hear(Notice)
        assert notice.data["member_id"] == bob.member_id
        answer = await first.send(make_send("c1", "dm", bob.pubkey))
        assert isinstance(answer, Accepted)
        async with connected(bob, process.url) as second:
            push = await second.take()
            assert push.message.broker_message_id == answer.broker_message_id
            await first.send(make_send("c2", "dm", bob.pubkey))
            assert (await second.take()).message.client_message_id == "c2"
        status = await first.request("message_status", client_message_id="c1")
        assert [each["state"] for each in status["deliveries"]] == ["delivered"]


async def test_how_it_is_and_what_it_counts_is_told(process: Process) -> None:
    health = await get(process, "/v1/health")
    assert (health.status_code, health.json()["broker_id"]) == (200, process.report["broker_id"])
    assert (await get(process, "/v1/ready")).json() == {"status": "ready"}
    metrics = await get(process, "/metrics")
    assert [spec.name for spec in BROKER_METRICS if f"# HELP {spec.name} " not in metrics.text] == []


async def test_health_and_metrics_are_told_while_the_database_answers_nobody(tmp_path: Path) -> None:
    """So what they cost does not depend on what it holds."""
    with broker(tmp_path / "broker") as process, closing(apsw.Connection(str(tmp_path / "broker/broker.db"))) as other:
        other.set_busy_timeout(SECONDS * 1000)
        other.execute("BEGIN IMMEDIATE")
        for path in ("/v1/health", "/metrics"):
            assert (await get(process, path)).status_code == 200
        other.execute("ROLLBACK")


async def test_what_is_not_there_or_not_for_pages_is_refused_in_one_shape(process: Process) -> None:
    for answer, status, code in (
        (await get(process, "/nothing"), 404, "NOT_FOUND"),
        (await get(process, "/v1/join"), 405, "METHOD_NOT_ALLOWED"),
        (await get(process, "/v1/health", origin="http://evil.example"), 403, "ORIGIN_FORBIDDEN"),
        (await post(process, "/v1/join", b"{"), 400, "INVALID_INPUT"),
        (await post(process, "/v1/join", b" " * 20_000), 413, "PAYLOAD_TOO_LARGE"),
        (await post(process, "/v1/meshes", {"slug": "No Slug", "name": "x"}), 400, "INVALID_INPUT"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert {route.path for route in BROKER_ROUTES} >= {"/v1/join", "/v1/meshes", "/v1/health", "/v1/ready", "/metrics"}
    with pytest.raises(websockets.InvalidStatus):
        await websockets.connect(f"{process.url}/ws", origin="http://evil.example", open_timeout=SECONDS, proxy=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "", "none, none"])
async def test_what_a_page_asks_for_is_refused_although_it_has_no_origin(process: Process, site: str) -> None:
    headers = {"sec-fetch-site": site, "host": "evil.example"}
    for path in ("/metrics", "/v1/health", "/v1/ready", "/openapi.json", "/v1/meshes"):
        answer = await get(process, path, **headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "ORIGIN_FORBIDDEN"), path
    made = await post(process, "/v1/meshes", {"slug": "paged", "name": "Paged"}, **headers)
    assert (made.status_code, made.json()["code"]) == (403, "ORIGIN_FORBIDDEN")


async def test_an_address_that_a_person_typed_into_a_browser_is_answered(process: Process) -> None:
    for path in ("/metrics", "/v1/health"):
        assert (await get(process, path, **{"sec-fetch-site": "none"})).status_code == 200


async def test_a_connection_begins_with_the_headers_of_every_answer(process: Process) -> None:
    answer = await get(process, "/v1/health", **{"x-request-id": "mine-1"})
    common = ["x-request-id", "x-instance-id", *(name.decode() for name, _ in SECURITY_HEADERS)]
    async with websockets.connect(
        f"{process.url}/ws", additional_headers={"X-Request-ID": "mine-1"}, open_timeout=SECONDS, proxy=None
    ) as opened:
        assert opened.response is not None
        assert {name: opened.response.headers[name] for name in common} == {
            name: answer.headers[name] for name in common
        }


async def test_a_stranger_cannot_put_anothers_key_into_a_mesh(process: Process) -> None:
    made = await post(process, "/v1/meshes", {"slug": "stolen", "name": "Stolen"})
    asked = Person("ann").asks_to_join(made.json()["invite"])
    body = {name: getattr(asked, name) for name in asked.__struct_fields__}
    answer = await post(process, "/v1/join", {**body, "pubkey": Person("eve").pubkey})
    assert (answer.status_code, answer.json()["details"]["reason"]) == (403, "signature")


async def test_a_frame_that_is_too_large_or_none_ends_only_its_own_connection(process: Process) -> None:
    made = await post(process, "/v1/meshes", {"slug": "frames", "name": "Frames"})
    ann = Person("ann")
    await ann.join(process.http, made.json()["invite"])
    async with connected(ann, process.url) as peer:
        await peer.socket.send("nonsense")
        assert (await peer.hear(ErrorFrame)).close_code is None
        await peer.socket.send(b'{"type": "ping", "id": 3}')
        assert (await peer.hear(Pong)).id == 3
        await peer.socket.send("x" * (FRAME_BYTES_MAX + 1))
        assert await peer.closed_with() == 1009
    async with connected(ann, process.url) as peer:
        await peer.say(Ping(1))
        await peer.hear(Pong)


async def test_who_takes_no_answers_to_its_pings_is_owed_the_newest_alone(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir(mode=0o700)
    (folder / "broker.toml").write_text("[timing]\nready_ms = 600_000\n")  # however slow the machine is
    with broker(folder) as patient:
        await _ping_and_never_read(patient)


async def _ping_and_never_read(process: Process) -> None:
    status = Path(f"/proc/{process.popen.pid}/status")

    def resident_bytes() -> int:
        return int(status.read_text().partition("VmRSS:")[2].split()[0]) * 1024

    masked = b"\x89\xfd\0\0\0\0" + bytes(125)
    port = int(process.http.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_024)
    writer.write(b"GET /ws HTTP/1.1\r\nHost: x\r\n" + "\r\n".join((*UPGRADE, KEY, "", "")).encode())
    await reader.readuntil(b"\r\n\r\n")
    before = resident_bytes()
    for _ in range(64):
        writer.write(masked * 8_192)
        await writer.drain()
    writer.write(b"\x89\x83\0\0\0\0new")
    await writer.drain()
    assert resident_bytes() - before < 16 * 1024 * 1024
    seen = b""
    async with asyncio.timeout(SECONDS):
        while b"new" not in seen:
            said = await reader.read(65_536)
            assert said, "the broker closed the connection"
            seen = seen[-2:] + said
    writer.close()
    await writer.wait_closed()


async def test_a_killed_broker_has_all_that_it_accepted_and_a_stopped_one_says_goodbye(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    port = lasting_port()
    with broker(folder, port=port) as first:
        ann, bob = await circle(first, "ann", "bob")
        async with connected(ann, first.url) as peer:
            assert isinstance(await peer.send(make_send("c1", "dm", bob.pubkey)), Accepted)
            first.kill()
    with broker(folder, port=port) as second:
        assert second.report["broker_id"] == first.report["broker_id"]
        assert second.report["owner_invite"] is None
        async with connected(ann, second.url) as peer, connected(bob, second.url) as other:
            answer = await peer.send(make_send("c1", "dm", bob.pubkey))
            assert isinstance(answer, Accepted)
            assert answer.duplicate
            assert (await other.take()).message.client_message_id == "c1"
            stopping = asyncio.create_task(asyncio.to_thread(second.stop))
            assert (await peer.closed_with(), await other.closed_with()) == (1001, 1001)
            assert await stopping == 0


async def test_only_who_has_the_token_makes_a_mesh_and_a_ban_closes_what_is_open(tmp_path: Path) -> None:
    with broker(tmp_path / "broker") as process:
        for headers in ({}, {"authorization": "Bearer wrong"}):
            refused = await post(process, "/v1/meshes", {"slug": "red", "name": "Red"}, **headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "CREATION_REFUSED")
        token = {"authorization": f"Bearer {process.token}"}
        assert (await post(process, "/v1/meshes", {"slug": "red", "name": "Red"}, **token)).status_code == 201
        ann, bob = await circle(process, "ann", "bob")
        async with connected(ann, process.url) as owner, connected(bob, process.url) as banned:
            await owner.request("ban", member_id=bob.member_id)
            assert await banned.closed_with() == 4002
        with pytest.raises(websockets.ConnectionClosed) as closed:
            async with connected(bob, process.url):
                pass
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4002


def start(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-P", "-m", "parley", "broker", "up", "--json", "--folder", str(folder), "--port", "0"]
    return subprocess.run([*argv, *options], capture_output=True, text=True, timeout=SECONDS, check=False)


def test_a_second_broker_on_the_same_file_is_refused_and_so_is_an_open_address(
    process: Process, tmp_path: Path
) -> None:
    second = start(process.folder)
    assert (second.returncode, json.loads(second.stdout)["code"]) == (10, "WRITER_LOCK_HELD")
    refused = start(tmp_path / "open", "--host", "0.0.0.0")
    assert refused.returncode == 24
    assert "--tls-cert" in json.loads(refused.stdout)["hint"]
    assert start(tmp_path / "half", "--tls-cert", "x.pem").returncode == 1
    short = start(tmp_path / "short", "--dedupe-days", "3")
    assert short.returncode == 22


async def test_on_a_full_disk_it_is_not_ready(tmp_path: Path) -> None:
    full = "import parley.serve.disk as disk\ndisk.FULL_BYTES = 2**62"
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / "broker.toml").write_text(f"[trouble]\ndisk_free_bytes_min = {2**62}\n")
    with broker(folder, before=full) as process:
        answer = await get(process, "/v1/ready")
        assert (answer.status_code, answer.json()["details"]["reason"]) == (503, "disk_full")
        health = await get(process, "/v1/health")
        assert (health.status_code, health.json()["status"]) == (200, "degraded")
        assert "the disk is full" in health.json()["problems"][0]
        assert process.stop() == 0
    assert '"disk_full"' in folder.with_name("broker.log").read_text()


async def test_of_a_disk_that_fills_it_tells_in_time_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / "broker.toml").write_text(f"[trouble]\ndisk_free_bytes_min = {2**62}\n")
    with broker(folder) as process:
        ready = await get(process, "/v1/ready")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        assert "nearly full" in ready.json()["problems"][0]
        metrics = (await get(process, "/metrics")).text
        (line,) = [each for each in metrics.splitlines() if each.startswith("parley_broker_disk_free_bytes ")]
        assert float(line.split()[1]) > 0
        assert process.stop() == 0
    assert '"disk_low"' in folder.with_name("broker.log").read_text()


async def test_who_can_never_come_back_is_gone_for_the_others_too(tmp_path: Path) -> None:
    soon = (
        "import parley.broker.server as server, parley.broker.policy as policy\n"
        "server.RETENTION_SECONDS = server.TICK_SECONDS\n"
        "policy.Policy.ephemeral_ms = property(lambda self: 0)"
    )
    with broker(tmp_path / "broker", before=soon) as process:
        (ann,) = await circle(process, "ann")
        guest, invite = Person("guest"), ann.invites()
        async with connected(ann, process.url) as peer:
            await peer.request("create_invite", invite=invite)
            asked = msgspec.structs.replace(guest.asks_to_join(invite), ephemeral=True)
            assert (await post(process, "/v1/join", msgspec.json.encode(asked))).status_code == 201
            while (notice := await peer.hear(Notice)).name != "member_gone":
                pass
            assert notice.data["state"] == "left"
            states = {each["display_name"]: each["state"] for each in (await peer.request("members"))["members"]}
            assert states == {"ann": "active", "guest": "left"}


def certificate(folder: Path) -> tuple[Path, Path]:
    cert, private = folder / "cert.pem", folder / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*argv, *names, "-keyout", private, "-out", cert], check=True, capture_output=True)
    return cert, private


async def test_with_a_certificate_it_speaks_tls(tmp_path: Path) -> None:
    cert, private = certificate(tmp_path)
    with broker(tmp_path / "broker", "--tls-cert", str(cert), "--tls-key", str(private)) as process:
        assert process.url.startswith("wss://")
        context = ssl.create_default_context(cafile=str(cert))
        async with httpx.AsyncClient(verify=context, timeout=SECONDS, trust_env=False) as client:
            assert (await client.get(f"{process.http}/v1/health")).status_code == 200
        async with websockets.connect(f"{process.url}/ws", ssl=context, open_timeout=SECONDS, proxy=None) as socket:
            assert json.loads(await socket.recv())["type"] == "challenge"


async def test_a_certificate_that_the_machine_trusts_is_enough_to_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, private = certificate(tmp_path)
    served = ("--tls-cert", str(cert), "--tls-key", str(private), "--open-creation")
    with broker(tmp_path / "broker", *served) as process:
        with pytest.raises(BrokerUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await create_mesh(process.url, "team", "team", None)
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        created = await create_mesh(process.url, "team", "team", None)
        assert (await join_mesh(created.invite, "ann", known=[], now_ms=0)).role == "owner"
    with pytest.raises(InvalidInput, match="is not the address of a broker"):
        await create_mesh("ftp://127.0.0.1", "team", "team", None)


async def test_two_brokers_on_one_database_are_one_to_their_members(tmp_path: Path, postgresql: Server) -> None:
    url = postgresql.new_url()
    with broker(tmp_path / "one", "--store", url) as one, broker(tmp_path / "two", "--store", url) as two:
        assert one.report["broker_id"] == two.report["broker_id"]
        ann, bob, cid = await circle(one, "ann", "bob", "cid")
        async with connected(ann, one.url) as peer, connected(bob, two.url) as other, connected(cid, two.url) as third:
            for number in range(5):
                assert isinstance(await peer.send(make_send(f"c{number}", "dm", bob.pubkey)), Accepted)
                assert (await other.take()).message.client_message_id == f"c{number}"
            async with connected(bob, one.url, "i2") as newer:
                assert await other.closed_with() == 4003
                await peer.send(make_send("c9", "dm", bob.pubkey))
                # An acknowledgement on its way when the connection was replaced is lost: its delivery comes again.
                while (await newer.take()).message.client_message_id != "c9":
                    pass
                await peer.request("ban", member_id=cid.member_id)
                assert await third.closed_with() == 4002
            assert isinstance(await peer.send(make_send("c10", "dm", cid.pubkey)), RefusedSend)
        assert (one.stop(), two.stop()) == (0, 0)
