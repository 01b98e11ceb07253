"""The WebSocket of a daemon, as uvicorn speaks it, with the bounds of our frames."""

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.protocol import State

from parley.broker.server import CLOSE_SECONDS, FRAME_BYTES_MAX, Broker


class BrokerSocket(WebSocketsSansIOProtocol):
    """uvicorn's own, but for a peer that reads no more: little is kept for it, and that is dropped after the end."""

    def __init__(self, config: uvicorn.Config, state: ServerState, headers: list[tuple[bytes, bytes]]) -> None:
        """``headers`` go with the answer to the upgrade."""
        super().__init__(config, state, {})
        self.default_headers = headers
        self._late_pong = b""

    def handle_ping(self) -> None:
        """Whoever takes no answers is owed the newest alone: there is no end to what pings could fill."""
        pongs = self.conn.data_to_send()
        if self.writable.is_set() or self.conn.state is not State.OPEN:  # among them may be the end, which is owed
            self.transport.write(b"".join(pongs))
        elif pongs:
            self._late_pong = pongs[-1]

    def resume_writing(self) -> None:
        super().resume_writing()
        pong, self._late_pong = self._late_pong, b""
        if pong and self.conn.state is State.OPEN:
            self.transport.write(pong)

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
