"""Requests that wait for their replies. A reply counts only from the peer that was asked."""

import asyncio
from typing import NamedTuple

from parley.bus.fingerprint import Fingerprint
from parley.bus.message import Reply
from parley.core.bus_errors import BusError, HandlerFailed, NoHandler, ReplyUnasked
from parley.core.errors import InvalidInput


class _Waiting(NamedTuple):
    peer: Fingerprint
    topic: str
    answer: "asyncio.Future[bytes]"


class Replies:
    """By the message id of the request."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, _Waiting] = {}

    def expect(self, message_id: bytes, peer: Fingerprint, topic: str) -> "asyncio.Future[bytes]":
        """Holds the body of the answer once it is there, or the reason for which there is none.

        Raises ``InvalidInput`` if an answer to this message id is waited for already.
        """
        if message_id in self._waiting:
            raise InvalidInput("a request with this message id is under way", field="message_id")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._waiting[message_id] = _Waiting(peer, topic, answer)
        return answer

    def forget(self, message_id: bytes) -> None:
        """Nobody waits any more."""
        self._waiting.pop(message_id, None)

    def topic(self, peer: Fingerprint, reply: Reply) -> str:
        """What the peer was asked on. Raises ``ReplyUnasked`` if it was not asked this, or nobody waits any more."""
        waiting = self._waiting.get(reply.to)
        if waiting is None or waiting.peer != peer:
            raise ReplyUnasked("nobody waits for this reply from this peer")
        return waiting.topic

    def deliver(self, peer: Fingerprint, reply: Reply) -> None:
        """Tells whoever waits, if the peer is the one that was asked."""
        waiting = self._waiting.get(reply.to)
        if waiting is None or waiting.peer != peer or waiting.answer.done():
            return
        if reply.outcome == "answered":
            waiting.answer.set_result(reply.body)
        else:
            waiting.answer.set_exception(_failure(reply, waiting))

    def fail_all(self, error: BusError) -> None:
        """Nothing will be answered any more."""
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(error)


def _failure(reply: Reply, waiting: _Waiting) -> BusError:
    if reply.outcome == "no_handler":
        return NoHandler(f"nothing answers {waiting.topic!r} there", peer=waiting.peer.hex(), topic=waiting.topic)
    return HandlerFailed(f"the handler of {waiting.topic!r} failed there", peer=waiting.peer.hex(), topic=waiting.topic)
