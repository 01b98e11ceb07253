"""A daemon whose keys end with it says which meshes it could not leave, and keeps nobody waiting for them."""

from parley.daemon.leaving import leave_all
from tests.daemon.desk import Desk


async def test_a_broker_that_is_away_is_not_waited_for(desk: Desk) -> None:
    assert (await desk.send()).status_code == 202
    await leave_all(desk.daemon)
    assert b'"mesh_not_left"' in desk.log.getvalue()
    assert desk.states() == {"pending": 1}
