"""What two agents say to each other on one connection, as a state machine: frames go in, and what they mean comes out.

Each side says hello first, and neither listens to anything else before it knows who the other one is: the key that the
transport has proven, the chain of the hello and the sender of every envelope are one agent, of the same user, whom
nothing that is known by now revokes. An envelope that is refused is answered; a frame that makes no sense, or comes
out of turn, ends the connection.

A link does no I/O and reads no clock. What it is asked to write it returns as bytes.
"""

from typing import Final, NamedTuple

from parley.bus.blocks import Buffer
from parley.bus.chain import Authority
from parley.bus.envelope import Envelope, Opened
from parley.bus.fingerprint import Fingerprint
from parley.bus.link_frames import (
    Alive,
    Answer,
    Hello,
    Refusal,
    Renewal,
    Statements,
    Topics,
    decode_frame,
    encode_frame,
)
from parley.bus.trust import Trust
from parley.core.bus_errors import BusError, LinkInvalid, PeerBusy, PeerRefused
from parley.core.errors import ERRORS


class Met(NamedTuple):
    """The peer has said who it is, and is believed."""

    hello: Hello
    learned: bool
    """Whether it told of a revocation that was not known."""


class Arrived(NamedTuple):
    """An envelope that is believed."""

    opened: Opened


class Unacceptable(NamedTuple):
    """An envelope that is not, and what to answer."""

    sequence: int
    error: BusError


class TopicsTold(NamedTuple):
    """The peer subscribes to other topics than before."""

    topics: tuple[str, ...]


class Learned(NamedTuple):
    """The peer told what the user has revoked."""

    new: bool


class Refused(NamedTuple):
    """The peer ends the connection, and says why."""

    error: BusError


Event = Met | Arrived | Unacceptable | Answer | TopicsTold | Learned | Alive | Refused | Renewal

KEEPALIVE: Final = encode_frame(Alive())


class Link:
    """One side of the conversation with the peer whose key the transport has proven."""

    def __init__(self, trust: Trust, peer: Fingerprint) -> None:
        self.peer = peer
        self._trust = trust
        self._hello: Hello | None = None

    @property
    def met(self) -> Hello | None:
        """The peer's hello, once it is believed."""
        return self._hello

    def receive(self, frame: Buffer, now_ms: int) -> Event:
        """What the frame means. Raises the ``BusError`` for which the connection has to end."""
        said = decode_frame(frame)
        if isinstance(said, Refusal):
            return Refused(refused_by(self.peer, said))
        if isinstance(said, Hello):
            return self._meet(said, now_ms)
        if self._hello is None:
            raise LinkInvalid("the first frame is no hello")
        match said:
            case Envelope():
                return self._open(said, now_ms)
            case Topics():
                topics = self._allowed(said.names, now_ms)
                self._hello = self._hello._replace(topics=topics)
                return TopicsTold(topics)
            case Statements():
                return Learned(self._trust.learn(said.texts))
            case Answer() | Alive() | Renewal():
                return said

    def authority(self, now_ms: int) -> Authority:
        """What the peer may do now. Raises what ``chain.verify`` raises when its certificate holds no longer."""
        if self._hello is None:
            raise LinkInvalid("the peer has not said who it is")
        return self._trust.judge(self._hello.chain, self.peer, now_ms)

    def _meet(self, hello: Hello, now_ms: int) -> Met:
        if self._hello is not None:
            raise LinkInvalid("the peer says hello again")
        if self.peer == self._trust.agent:
            raise LinkInvalid("the peer is this agent itself")
        # Before its chain is judged: the peer may bring the news of its own revocation, or of ours.
        learned = self._trust.learn(hello.statements)
        self._trust.judge(hello.chain, self.peer, now_ms)
        self._hello = hello
        self._hello = hello._replace(topics=self._allowed(hello.topics, now_ms))
        return Met(self._hello, learned)

    def _allowed(self, topics: tuple[str, ...], now_ms: int) -> tuple[str, ...]:
        """Without those on which the peer's certificate does not let it listen."""
        allowed = self.authority(now_ms).caveats.topics
        return tuple(each for each in topics if allowed is None or each in allowed)

    def _open(self, envelope: Envelope, now_ms: int) -> Arrived | Unacceptable:
        try:
            return Arrived(self._trust.open(envelope, self.peer, now_ms))
        except BusError as error:
            return Unacceptable(envelope.head.sequence, error)


def refusal_of(error: BusError) -> Refusal:
    """How a peer is told of a failure; what is nobody else's business it learns as ``BUS_PEER_BUSY``."""
    told: type[BusError] = type(error) if error.on_wire else PeerBusy
    return Refusal(told.code, told.transient)


def refused_by(peer: Fingerprint, refusal: Refusal) -> BusError:
    """The refusal that a peer told of, as an error to raise."""
    known = ERRORS.get(refusal.code)
    message = f"the peer {peer.hex()[:12]} refused it"
    if known is not None and issubclass(known, BusError) and known.on_wire:
        return known(f"{message}: {known.code}", peer=peer.hex())
    kind = PeerBusy if refusal.transient else PeerRefused
    return kind(f"{message}: {refusal.code}", peer=peer.hex(), told=refusal.code)
