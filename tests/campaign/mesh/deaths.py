"""Where a daemon or a broker dies: at each step of a message's way, between any two things that must not be torn apart.

A process that is to die at a point wraps the one function of the product that is called there, and ends itself by
SIGKILL the n-th time: nothing is flushed, nothing is said. ::

    asked      the daemon was asked to send, and has written nothing
    kept       the row is on disk, and the program has no answer
    taken      the row is marked as in flight, and not sent
    sent       the frame is in the socket
    heard      the broker has the frame, and has written nothing
    written    the broker has written everything, and not committed
    committed  the broker has committed, and not answered
    leased     a delivery is leased to a connection, and not pushed
    pushed     the recipient has the delivery, and has written nothing
    stored     the delivery is in the inbox, and not acknowledged
    acked      the acknowledgement is in the socket
    returned   the broker has the acknowledgement, and has written nothing
    finished   the broker has committed the acknowledgement
    answered   the sender has the broker's answer, and has written nothing
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from parley.broker.calls import AcceptMessage
from parley.broker.session import Session
from parley.daemon.connection import BrokerSocket
from parley.daemon.daemon import Daemon
from parley.daemon.mesh_loop import MeshLoop
from parley.daemon.runner import MeshRunner
from parley.wire.broker import Accepted, DeliveryAck, DeliveryAcked, Push, Send


class Death(NamedTuple):
    """At which point, and at how many-eth time."""

    point: str
    count: int


DAEMON_POINTS = ("asked", "kept", "taken", "sent", "pushed", "stored", "acked", "answered")
BROKER_POINTS = ("heard", "written", "committed", "leased", "returned", "finished")


STORED_AFTER_SECONDS = 0.5
"""How hasty the daemon of the control is: long enough that no death between the two comes too late."""


def arm(death: Death | None) -> None:
    """Has this process die there."""
    if death is not None:
        _POINTS[death.point](_Fuse(death.count))


def acknowledge_before_storing() -> None:
    """The control: a daemon that breaks the rule which the whole matrix is about."""
    store_pushes = MeshRunner._store_pushes

    def hasty(self: MeshRunner, pushes: Sequence[Push]) -> None:
        acks = [DeliveryAcked(push.delivery_id) for push in pushes]
        self._step(self.machine.on_stored(acks, self._now()))
        self._loop.call_later(STORED_AFTER_SECONDS, store_pushes, self, pushes)

    MeshRunner._store_pushes = hasty


class _Fuse:
    """Burns a little each time."""

    def __init__(self, count: int) -> None:
        self._left = count

    def burn(self) -> None:
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _before(owner: Any, name: str, *, only: Callable[..., bool] = lambda *_: True) -> Callable[[_Fuse], None]:
    """Dies when the function is called."""
    inner = getattr(owner, name)

    def install(fuse: _Fuse) -> None:
        def wrapped(self: Any, *args: Any, **named: Any) -> Any:
            if only(*args):
                fuse.burn()
            return inner(self, *args, **named)

        setattr(owner, name, wrapped)

    return install


def _after(owner: Any, name: str) -> Callable[[_Fuse], None]:
    """Dies when the function would return."""
    inner = getattr(owner, name)

    def install(fuse: _Fuse) -> None:
        def wrapped(self: Any, *args: Any, **named: Any) -> Any:
            value = inner(self, *args, **named)
            fuse.burn()
            return value

        setattr(owner, name, wrapped)

    return install


def _after_awaiting(owner: Any, name: str) -> Callable[[_Fuse], None]:
    inner = getattr(owner, name)

    def install(fuse: _Fuse) -> None:
        async def wrapped(self: Any, *args: Any, **named: Any) -> Any:
            value = await inner(self, *args, **named)
            fuse.burn()
            return value

        setattr(owner, name, wrapped)

    return install


def _soon_after(owner: Any, name: str, *, only: Callable[..., bool]) -> Callable[[_Fuse], None]:
    """Dies in the next turn of the loop: what a turn has written is in the socket when it ends."""
    inner = getattr(owner, name)

    def install(fuse: _Fuse) -> None:
        def wrapped(self: Any, *args: Any, **named: Any) -> Any:
            value = inner(self, *args, **named)
            if only(*args):
                asyncio.get_running_loop().call_soon(fuse.burn)
            return value

        setattr(owner, name, wrapped)

    return install


def _either(*installs: Callable[[_Fuse], None]) -> Callable[[_Fuse], None]:
    """One point that is reached on several ways."""

    def install(fuse: _Fuse) -> None:
        for each in installs:
            each(fuse)

    return install


def _frame_is(kind: type) -> Callable[..., bool]:
    return lambda frame, *_: isinstance(frame, kind)


def _bytes_are(name: str) -> Callable[..., bool]:
    return lambda data, *_: bytes(data).startswith(f'{{"type":"{name}"'.encode())


_POINTS: dict[str, Callable[[_Fuse], None]] = {
    "asked": _before(Daemon, "send"),
    "kept": _after_awaiting(Daemon, "send"),
    "taken": _either(
        _before(MeshLoop, "on_taken", only=lambda due, *_: bool(due.rows)),
        _before(MeshLoop, "on_admitted", only=lambda row, *_: row is not None),
    ),
    "sent": _soon_after(BrokerSocket, "write", only=_bytes_are("send")),
    "heard": _before(Session, "on_frame", only=_frame_is(Send)),
    "written": _after(AcceptMessage, "__call__"),
    "committed": _before(Session, "_on_accepted"),
    "leased": _before(Session, "_on_claimed", only=lambda room, pushes, *_: bool(pushes)),
    "pushed": _before(MeshLoop, "on_frame", only=_frame_is(Push)),
    "stored": _before(MeshLoop, "on_stored"),
    "acked": _soon_after(BrokerSocket, "write", only=_bytes_are("delivery_ack")),
    "returned": _before(Session, "on_frame", only=_frame_is(DeliveryAck)),
    "finished": _before(Session, "_on_acked"),
    "answered": _before(MeshLoop, "on_frame", only=_frame_is(Accepted)),
}
