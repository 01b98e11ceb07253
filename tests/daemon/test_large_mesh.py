"""A mesh that more have joined than fit into one frame: its daemons connect and know everybody who is there."""

from contextlib import closing
from pathlib import Path
from typing import Any

from bench.load.ports import lasting_port
from parley.broker.sqlite_store import open_sqlite_store
from parley.broker.tx import Tx
from parley.core.clock import SystemClock
from tests.broker.driven_mesh import pubkey_of
from tests.broker.process import broker
from tests.conformance.broker.circle import join_many
from tests.daemon.older_mesh import met
from tests.daemon.served_daemon import MakeServed, ServedDaemon
from tests.daemon.test_exchange import invite, joined, sends

LEFT, ACTIVE = 18_000, 2_500


def crowd(path: Path) -> None:
    """Members of the broker's one mesh, without daemons: those who left, and those who are still there."""

    def join(tx: Tx) -> None:
        ((mesh_id,),) = tx.all("SELECT mesh_id FROM mesh WHERE slug = 'large'")
        tx.run("UPDATE mesh SET members_max = 100000 WHERE mesh_id = ?", mesh_id)
        join_many(tx, mesh_id, ["left"] * LEFT + ["active"] * ACTIVE, pubkey_of)

    with closing(open_sqlite_store(path, SystemClock(), synchronous="normal")) as store:
        store.call(join)


async def test_m10_daemons_of_a_mesh_with_twenty_thousand_joiners_connect_and_talk(
    tmp_path: Path, make_served: MakeServed
) -> None:
    folder, port = tmp_path / "broker", lasting_port()
    with broker(folder, "--open-creation", port=port) as serving:
        alice, bob = await met(serving.url, "large", make_served)
    for served in (alice, bob):
        await served.until(lambda served=served: not served.daemon.mesh(None).runner.machine.ready)
    crowd(folder / "broker.db")
    with broker(folder, "--open-creation", port=port):
        for served in (alice, bob):
            await served.until(lambda served=served: served.daemon.mesh(None).runner.machine.ready)
        found = await alice.send(to=f"p{LEFT + 17}", message="to somebody who is there")
        assert found.status_code == 202, found.text
        assert (await alice.send(to="p17")).status_code == 404, "who left is reached no more"
        await sends(alice, "bob", "still here?")
        await bob.until(lambda: bob.bodies() == ["still here?"])
        assert len(alice.daemon.mesh(None).roster.active()) == ACTIVE + 2
        peers = (await alice.unix.get("/v1/peers")).json()
        assert (len(peers["peers"]), peers["unreachable"]) == (ACTIVE + 2, [])
        await _everybody_is_listed_and_former_members_have_names(alice)
        carol = await joined(make_served, "carol", await invite(alice))
        await sends(carol, "alice", "new here")
        await alice.until(lambda: alice.bodies() == ["new here"])


async def _everybody_is_listed_and_former_members_have_names(alice: ServedDaemon) -> None:
    listed = await alice.unix.post("/v1/mesh/call", json={"method": "members"})
    assert len(listed.json()["members"]) == LEFT + ACTIVE + 2
    for name, status in (("p17", 200), ("p99999", 404)):
        lifted = await alice.unix.post("/v1/mesh/call", json={"method": "unban", "params": {"member": name}})
        assert (lifted.status_code, lifted.json().get("state")) == (status, "left" if status == 200 else None)


async def test_a_broker_that_knows_no_pages_is_asked_once() -> None:
    from parley.daemon.roster import list_all

    asked: list[dict[str, Any]] = []

    async def old_broker(method: str, params: dict[str, Any]) -> Any:
        asked.append(params)
        return {"members": [{"member_id": f"m{n}"} for n in range(5_000)]}

    assert len(await list_all(old_broker, "members", "members")) == 5_000
    assert len(asked) == 1


async def test_a_broker_that_repeats_a_page_is_not_asked_for_ever() -> None:
    from parley.daemon.roster import list_all

    async def stuck(method: str, params: dict[str, Any]) -> Any:
        return {"members": [{"member_id": "m1"}], "cursor": "m1"}

    assert len(await list_all(stuck, "members", "members")) == 2
