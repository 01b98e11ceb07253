"""A daemon whose keys end with it says which meshes it could not leave, and keeps nobody waiting for them."""

from parley.daemon.leaving import leave_all
from tests.daemon.served_daemon import ServedDaemon


async def test_a_broker_that_is_away_is_not_waited_for(served: ServedDaemon) -> None:
    assert (await served.send()).status_code == 202
    await leave_all(served.daemon)
    assert b'"mesh_not_left"' in served.log.getvalue()
    assert served.states() == {"pending": 1}
