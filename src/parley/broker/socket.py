"""The WebSocket of a daemon, as uvicorn speaks it, with the bounds of our frames."""

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from parley.broker.server import CLOSE_SECONDS, FRAME_BYTES_MAX, Broker


class BrokerSocket(WebSocketsSansIOProtocol):
    """uvicorn's own, but for a peer that reads no more: what it does not take is dropped soon after the end."""

    def __init__(self, config: uvicorn.Config, state: ServerState, headers: list[tuple[bytes, bytes]]) -> None:
        """``headers`` go with the answer to the upgrade."""
        super().__init__(config, state, {})
        self.default_headers = headers

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self.loop.call_later(CLOSE_SECONDS, self.transport.abort)


def socket_config(broker: Broker) -> uvicorn.Config:
    """How the sockets of this broker are spoken to."""
    config = uvicorn.Config(
        broker.serve,
        interface="asgi3",
        ws_max_size=FRAME_BYTES_MAX,
        ws_ping_interval=None,
        ws_per_message_deflate=False,  # what is sealed does not get smaller
        lifespan="off",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    config.load()
    return config
