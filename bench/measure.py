"""One measured closed loop: rate, latency and the server's CPU time per request. The same for every server."""

from collections.abc import Callable, Sequence

from bench.figures import Sample, latency_sample
from bench.load.peer import Peer, closed_loop
from bench.load.process import Process

CONNECTIONS = 16


async def measure(
    server: Process, peers: Sequence[Peer], requests: Sequence[bytes], check: Callable[[bytes], None]
) -> Sample:
    """Sends the requests over the connections, which are closed afterwards."""
    cpu = server.cpu_seconds()
    run = await closed_loop(peers, iter(requests), check)
    cpu = server.cpu_seconds() - cpu
    for peer in peers:
        peer.close()
    return {
        **latency_sample(run.latencies),
        "per_second": round(len(requests) / run.seconds),
        "cpu_us": round(cpu / len(requests) * 1e6, 1),
    }
