"""Signed texts: a typed value as canonical JSON, and a signature over a domain tag and exactly that text.

Written as ``u32 length ‖ text ‖ signature 64``. A text is taken only in its canonical form and without members that its
type does not have, so one value has one text, and a limit that this version does not know is refused, not passed over.
The tag keeps a signature of one kind of text from being used as one of another kind.
"""

from typing import Generic, NamedTuple, TypeVar

import msgspec

from parley.bus.blocks import BlockReader, Malformed, block
from parley.core import sealing, untrusted_json
from parley.core.canonical import canonical_json
from parley.core.errors import InvalidInput

T = TypeVar("T", bound=msgspec.Struct)


class Signed(NamedTuple, Generic[T]):
    """A value, the text that it was read from or written as, and somebody's signature."""

    value: T
    text: bytes
    signature: bytes

    def is_by(self, public: bytes, tag: bytes) -> bool:
        """Whether the owner of this key signed it as this kind of text."""
        return sealing.verify(public, self.signature, tag + self.text)

    def encode(self) -> bytes:
        """The bytes that ``read_signed`` reads."""
        return block(self.text) + self.signature


def sign(value: T, tag: bytes, seed: bytes) -> Signed[T]:
    """Signs the value. Raises ``InvalidInput`` for one that nobody would read."""
    text = canonical_json(msgspec.to_builtins(value))
    try:
        untrusted_json.decode(text, type(value))
    except msgspec.DecodeError as error:
        raise InvalidInput(str(error)) from error
    return Signed(value, text, sealing.sign(seed, tag + text))


def read_signed(reader: BlockReader, kind: type[T], bytes_max: int) -> Signed[T]:
    """The next signed text; nobody has looked at its signature yet. Raises ``Malformed``."""
    text = bytes(reader.block(bytes_max))
    signature = bytes(reader.take(sealing.SIGNATURE_BYTES))
    try:
        value = untrusted_json.decode(text, kind)
        canonical = canonical_json(msgspec.to_builtins(value))
    except (msgspec.DecodeError, InvalidInput) as error:
        raise Malformed(str(error)) from error
    if canonical != text:
        raise Malformed("the text is not in its canonical form")
    return Signed(value, text, signature)
