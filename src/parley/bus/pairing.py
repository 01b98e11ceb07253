"""Pairing: a machine is let in over a network that anybody may stand in, by six digits that people compare.

One side asks: it has an agent key, and shows a request. The other side lets in: it has the user key, and shows its
public half. Whoever stands between them could show each side keys of its own. So both commit to what they will show,
with a nonce, before either shows it, and the digits come from all of it::

    asks        commitment  ──▶              BLAKE3 of the side, a nonce of 32 bytes, and what will be shown
                commitment  ◀──   lets in
                opening     ──▶              the nonce, and what is shown
                opening     ◀──
                both show six digits; a person types those of the other side on each
                confirmed   ──▶              signed with the agent key
                granted     ◀──              the grant, signed with the user key, once both have confirmed

Somebody in between must have committed to each side before that side has opened anything. So the digits of the two
sides are independent of each other, and equal once in a million times. That holds for one attempt: an ``Attempt``
opens once, and whoever runs it makes no second one in the same pairing (``pairing_host``, ``pairing_guest``). Both
signatures are over everything that was shown, so what was compared is what is confirmed and granted.

An attempt does no I/O and reads no clock. Nothing in it is secret but its nonce, until it opens.
"""

from typing import Final, Literal, NamedTuple

from blake3 import blake3

from parley.bus.blocks import BlockReader, Malformed, block
from parley.bus.enrolment import Grant, Request, read_grant, read_request
from parley.bus.fingerprint import Fingerprint, fingerprint_of
from parley.core import sealing
from parley.core.bus_errors import BusError, OtherUser, PairingFailed

Side = Literal["asks", "lets in"]

NONCE_BYTES: Final = 32
CODE_DIGITS: Final = 6
FRAME_BYTES_MAX: Final = 131_072
"""A grant with the largest certificate, and what is signed of it."""
_DIGEST_BYTES: Final = 32
_TAG: Final = b"parley bus pairing 1\n"
_COMMITMENT, _OPENING, _CONFIRMED, _GRANTED = range(1, 5)
_SIDES: Final[tuple[Side, Side]] = ("asks", "lets in")


class Committed(NamedTuple):
    """The other side has said that it will show something. The side that asks opens next."""


class Opened(NamedTuple):
    """The other side has shown what it committed to, and there are digits. The side that lets in opens now."""

    request: Request | None
    """Of the side that asks; a claim but for its key."""
    line: str | None
    """The line that the request was read from."""
    user: Fingerprint | None
    """Of the side that lets in."""


class Confirmed(NamedTuple):
    """Somebody has confirmed the digits on the side that asks."""


class Granted(NamedTuple):
    """The side that lets in has confirmed them, and this machine is let in."""

    grant: Grant


Event = Committed | Opened | Confirmed | Granted


class Attempt:
    """One side of one attempt. ``shown`` is a request line, or the user's public key; ``seed`` signs for it."""

    def __init__(self, side: Side, shown: bytes, seed: bytes, nonce: bytes) -> None:
        self.side: Side = side
        self._other: Side = "asks" if side == "lets in" else "lets in"
        self._seed = seed
        self._opening = nonce + shown
        self._committed: bytes | None = None
        self._opened: bytes | None = None
        self._has_opened = False
        self._confirmed_here = False
        self._confirmed_there = False

    def commitment(self) -> bytes:
        """The first frame of this side."""
        return bytes([_COMMITMENT]) + _TAG + _commitment(self.side, self._opening)

    def opening(self) -> bytes:
        """What this side shows. Raises ``PairingFailed`` before the other side has committed, and a second time."""
        if self._committed is None or self._has_opened:
            raise PairingFailed("nothing is shown before the other side has committed, nor twice", reason="turn")
        self._has_opened = True
        return bytes([_OPENING]) + self._opening

    def receive(self, frame: bytes) -> Event:
        """What the frame means. Raises ``PairingFailed``, after which the attempt is over."""
        kind, rest = frame[:1], frame[1:]
        if kind == bytes([_COMMITMENT]) and self._committed is None:
            return self._commit(rest)
        if kind == bytes([_OPENING]) and self._may_be_shown():
            return self._open(rest)
        if kind == bytes([_CONFIRMED]) and self.side == "lets in" and self._shown_to_both():
            self._check(_CONFIRMED, rest, b"", bytes.fromhex(self._request().agent))
            self._confirmed_there = True
            return Confirmed()
        if kind == bytes([_GRANTED]) and self.side == "asks" and self._confirmed_here:
            return self._granted(rest)
        raise PairingFailed("the other side says something else than it should now", reason="turn")

    @property
    def code(self) -> str:
        """The digits that both sides show, once both have opened."""
        number = int.from_bytes(blake3(b"digits" + self._transcript()).digest()[:16])
        return f"{number % 10**CODE_DIGITS:0{CODE_DIGITS}d}"

    def confirm(self, typed: str) -> None:
        """Takes the digits of the other side, as somebody has typed them here. Raises ``PairingFailed`` for others."""
        if not self._shown_to_both() or "".join(typed.split()) != self.code:
            raise PairingFailed("the digits are not those of this machine", reason="digits")
        self._confirmed_here = True

    def confirmation(self) -> bytes:
        """How the side that asks says that it has confirmed. Raises ``PairingFailed`` if it has not."""
        if not self._confirmed_here:
            raise PairingFailed("nobody has confirmed the digits here", reason="turn")
        return bytes([_CONFIRMED]) + self._signature(_CONFIRMED, b"")

    def granting(self, line: str) -> bytes:
        """How the side that lets in hands over the grant. Raises ``PairingFailed`` unless both have confirmed."""
        if not self.may_issue:
            raise PairingFailed("nothing is issued before both sides have confirmed", reason="turn")
        return bytes([_GRANTED]) + block(line.encode()) + self._signature(_GRANTED, line.encode())

    @property
    def may_issue(self) -> bool:
        """Whether both sides have confirmed, as the side that lets in knows."""
        return self.side == "lets in" and self._confirmed_here and self._confirmed_there

    def _commit(self, rest: bytes) -> Committed:
        if rest[: len(_TAG)] != _TAG or len(rest) != len(_TAG) + _DIGEST_BYTES:
            raise PairingFailed("the other side does not speak as a machine that pairs", reason="malformed")
        self._committed = rest[len(_TAG) :]
        return Committed()

    def _may_be_shown(self) -> bool:
        """Whether it is the other side's turn to open: the side that asks opens first."""
        return self._committed is not None and self._opened is None and self._has_opened is (self.side == "asks")

    def _open(self, opening: bytes) -> Opened:
        if len(opening) <= NONCE_BYTES or _commitment(self._other, opening) != self._committed:
            raise PairingFailed("the other side shows something else than it committed to", reason="opening")
        self._opened = opening
        if self.side == "lets in":
            return Opened(self._request(), self._shown().decode(), None)
        if len(self._shown()) != sealing.KEY_BYTES:
            raise PairingFailed("what the other side shows is no key", reason="malformed")
        return Opened(None, None, fingerprint_of(self._shown()))

    def _granted(self, rest: bytes) -> Granted:
        reader = BlockReader(rest)
        try:
            line = bytes(reader.block(FRAME_BYTES_MAX))
            signature = bytes(reader.take(sealing.SIGNATURE_BYTES))
            reader.end()
        except Malformed as error:
            raise PairingFailed(f"the grant cannot be read: {error}", reason="malformed") from error
        self._check(_GRANTED, signature, line, self._shown())
        try:
            grant = read_grant(line.decode("ascii"))
        except (UnicodeDecodeError, BusError) as error:
            raise PairingFailed(f"the grant cannot be read: {error}", reason="malformed") from error
        if grant.chain.user_key != self._shown():
            raise OtherUser("the grant is by another user than the one who was compared")
        return Granted(grant)

    def _request(self) -> Request:
        try:
            return read_request(self._shown().decode("ascii"))
        except (UnicodeDecodeError, BusError) as error:
            raise PairingFailed(f"the other side shows no request: {error}", reason="malformed") from error

    def _shown(self) -> bytes:
        assert self._opened is not None
        return self._opened[NONCE_BYTES:]

    def _shown_to_both(self) -> bool:
        return self._has_opened and self._opened is not None

    def _transcript(self) -> bytes:
        if self._opened is None:
            raise PairingFailed("the other side has shown nothing yet", reason="turn")
        by_side = {self.side: self._opening, self._other: self._opened}
        return blake3(_TAG + b"".join(block(by_side[side]) for side in _SIDES)).digest()

    def _signed(self, kind: int, more: bytes) -> bytes:
        return _TAG + bytes([kind]) + self._transcript() + more

    def _signature(self, kind: int, more: bytes) -> bytes:
        return sealing.sign(self._seed, self._signed(kind, more))

    def _check(self, kind: int, signature: bytes, more: bytes, key: bytes) -> None:
        if not sealing.verify(key, signature, self._signed(kind, more)):
            raise PairingFailed("what the other side says is not signed with the key that it showed", reason="forged")


def _commitment(side: Side, opening: bytes) -> bytes:
    """It names the side, so that what one side said cannot be sent back to it."""
    return blake3(_TAG + bytes([_SIDES.index(side)]) + opening).digest()
