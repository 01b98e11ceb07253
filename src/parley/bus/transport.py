"""The seam between the bus and a network: channels whose other side is proven, and where peers may be found.

A transport proves keys and carries frames. It knows nothing of chains, envelopes or topics: what the owner of a key may
do, and whether that key was revoked, the bus decides from what the frames say. So a transport on real sockets and one
in memory differ in nothing that the bus could see.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from parley.bus.blocks import Buffer
from parley.bus.fingerprint import Fingerprint

Frame = Buffer | tuple[Buffer, ...]
"""What is sent at once: whole, or in parts that nobody has to copy into one."""


class Address(NamedTuple):
    """Where an agent may be found. It is a claim until a channel to it has proven who is there."""

    host: str
    port: int


class Channel(Protocol):
    """One connection, the key of whose other side the transport has proven.

    Frames arrive whole and in order, or not at all. One task sends at a time and one receives, which may be another.
    If ``send`` or ``receive`` is cancelled, the channel is of no further use and must be closed.
    """

    @property
    def peer(self) -> Fingerprint:
        """The fingerprint of the other side's agent key."""
        ...

    async def send(self, *frames: Frame) -> None:
        """Hands frames over; waits while the other side takes nothing. Raises ``ChannelClosed``, ``FrameTooLarge``.

        That it returns does not mean that they have arrived.
        """
        ...

    async def receive(self) -> Buffer:
        """The next frame. Raises ``ChannelClosed`` at the end, ``FrameTooLarge`` before it has read such a frame."""
        ...

    async def close(self) -> None:
        """Lets go of the connection; what waits in ``send`` or ``receive`` on either side ends with ``ChannelClosed``.
        To close again does nothing."""
        ...


Accept = Callable[[Channel], Awaitable[None]]


class Transport(Protocol):
    """How one agent reaches others and is reached. It belongs to one event loop."""

    async def listen(self, accept: Accept) -> Address:
        """Begins to take connections, each of which gets a task of its own that ``accept`` runs in, with its channel.

        When ``accept`` returns, its channel is closed. Asked once.
        """
        ...

    async def dial(self, address: Address, *, peer: Fingerprint) -> Channel:
        """A channel to this peer. Raises ``PeerUnreachable`` if nobody, or somebody else, is found at the address.

        A transport that knows may raise ``CertificateExpired`` for a peer whose certificate has ended.
        """
        ...

    async def close(self) -> None:
        """Takes no more connections, and closes those that there are. To close again does nothing."""
        ...


class Resolver(Protocol):
    """Who may be found where. All that it says are claims, which ``Transport.dial`` puts to the proof."""

    def candidates(self, peer: Fingerprint) -> Sequence[Address]:
        """Where the peer may be, the likeliest first; empty if nothing is known."""
        ...

    def peers(self) -> Sequence[Fingerprint]:
        """Everybody for whom there are candidates."""
        ...

    def watch(self, seen: Callable[[Fingerprint], None]) -> None:
        """Has ``seen`` called, on the event loop, whenever a peer is announced, for the first time or again."""
        ...
