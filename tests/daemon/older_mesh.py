"""Two daemons in a mesh from before there were rosters, in which the broker decides who is a member."""

from parley.daemon.joining import create_mesh
from tests.daemon.served_daemon import MakeServed, ServedDaemon
from tests.daemon.test_exchange import invite, joined


async def met(url: str, name: str, make_served: MakeServed) -> tuple[ServedDaemon, ServedDaemon]:
    """``alice``, who owns it, and ``bob``; both have its key."""
    created = await create_mesh(url, name, name, None)
    alice = await joined(make_served, "alice", created.invite)
    bob = await joined(make_served, "bob", await invite(alice))
    return alice, bob
