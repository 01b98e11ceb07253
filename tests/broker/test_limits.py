"""The operator changes what a mesh may hold: while a broker serves a file, with TLS or without, stopped, and shared."""

from pathlib import Path

import httpx
import pytest

from parley.app.broker_limits import limits
from parley.broker.lifecycle import BrokerRunning, locked
from parley.core.clock import SystemClock
from parley.core.errors import InvalidInput, NotFound, ServiceUnavailable
from parley.wire.broker import Accepted, RefusedSend
from tests.broker.process import SECONDS, broker, circle, connected
from tests.broker.test_server import certificate
from tests.conformance.broker.circle import make_send
from tests.postgres import Server

SMALL, LARGE = 1024, 1024 * 1024


async def test_a_change_holds_at_once_in_a_broker_that_serves_and_stays_when_it_has_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    with broker(folder) as process:
        ann, bob = await circle(process, "ann", "bob")
        (shown,) = limits(None, folder, None, None, None)
        assert (shown["slug"], shown["members"], shown["members_max"]) == ("home", 2, 1000)
        async with connected(ann, process.url) as peer:
            (changed,) = limits(None, folder, "home", None, SMALL)
            assert (changed["bytes_max"], changed["members_max"]) == (SMALL, 1000)
            refused = await peer.send(make_send("c1", ref=bob.pubkey, body=b"x" * 2000))
            assert isinstance(refused, RefusedSend)
            assert (refused.problem.code, refused.problem.transient) == ("QUOTA_EXCEEDED", True)
            limits(None, folder, "home", None, LARGE)
            assert isinstance(await peer.send(make_send("c1", ref=bob.pubkey, body=b"x" * 2000)), Accepted)
            entry = (await peer.request("audit"))["entries"][-1]
            assert (entry["event"], entry["actor"]) == ("mesh_limits_changed", "operator")
        assert process.stop() == 0
    (after,) = limits(None, folder, "home", 9, None)
    assert (after["members_max"], after["bytes_max"], after["stored_bytes"]) == (9, LARGE, 2000)


async def test_only_who_has_the_token_sees_and_changes_the_limits_whoever_may_create(tmp_path: Path) -> None:
    async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client:
        with broker(tmp_path / "broker", "--open-creation") as process:
            address, body = f"{process.http}/v1/meshes", {"slug": "home", "members_max": 5}
            for headers in ({}, {"authorization": "Bearer wrong"}):
                for answer in (
                    await client.get(address, headers=headers),
                    await client.patch(address, json=body, headers=headers),
                ):
                    assert (answer.status_code, answer.json()["code"]) == (403, "OPERATOR_ONLY")
            right = {"authorization": f"Bearer {process.token}"}
            assert (await client.patch(address, json=body, headers=right)).json()["members_max"] == 5
            for bad in ({"slug": "home", "members_max": 0}, {"slug": "home", "color": "red"}):
                assert (await client.patch(address, json=bad, headers=right)).status_code == 400
            missing = await client.patch(address, json={"slug": "none", "members_max": 5}, headers=right)
            assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")


def test_a_broker_that_speaks_tls_is_known_by_its_own_certificate(tmp_path: Path) -> None:
    cert, private = certificate(tmp_path)
    with broker(tmp_path / "broker", "--tls-cert", str(cert), "--tls-key", str(private)):
        (changed,) = limits(None, tmp_path / "broker", "home", 7, None)
    assert changed["members_max"] == 7


async def test_a_change_holds_at_once_at_all_brokers_of_one_database(tmp_path: Path, postgresql: Server) -> None:
    url = postgresql.new_url()
    with broker(tmp_path / "one", "--store", url) as one, broker(tmp_path / "two", "--store", url) as two:
        ann, bob = await circle(one, "ann", "bob")
        async with connected(ann, one.url) as peer, connected(bob, two.url) as other:
            limits(url, tmp_path / "one", "home", None, SMALL)
            for line, to in ((peer, bob), (other, ann)):
                assert isinstance(await line.send(make_send("c1", ref=to.pubkey, body=b"x" * 2000)), RefusedSend)
            limits(url, tmp_path / "elsewhere", "home", None, LARGE)
            for line, to in ((peer, bob), (other, ann)):
                assert isinstance(await line.send(make_send("c1", ref=to.pubkey, body=b"x" * 2000)), Accepted)


def test_what_cannot_be_changed_is_said(tmp_path: Path) -> None:
    with pytest.raises(ServiceUnavailable, match="There is no file"):
        limits(None, tmp_path / "empty", None, None, None)
    folder = tmp_path / "broker"
    with broker(folder) as process:
        process.stop()
    with pytest.raises(InvalidInput, match="Name the mesh"):
        limits(None, folder, None, 5, None)
    with pytest.raises(NotFound):
        limits(None, folder, "none", None, None)
    with pytest.raises(InvalidInput):
        limits(None, folder, "Not A Slug", 5, None)
    with locked(folder / "broker.db", "somebody", SystemClock()), pytest.raises(BrokerRunning):
        limits(None, folder, None, None, None)
