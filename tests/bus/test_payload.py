"""Sealed payloads: readable by one agent, from one agent, under one message id."""

import pytest

from parley.bus import Fingerprint, open_payload, seal_payload
from parley.core.bus_errors import PayloadUnreadable
from parley.core.errors import InvalidInput
from parley.core.sealing import DIRECT_OVERHEAD_BYTES, public_key
from tests.bus.agents import ADA, BOB, CAROL, USER_NAME

MESSAGE = bytes(range(16))


def sealed(text: bytes = b"words") -> bytes:
    return seal_payload(text, user=USER_NAME, message_id=MESSAGE, sender_seed=ADA, recipient_key=public_key(BOB))


def opened(
    data: bytes,
    *,
    user: Fingerprint = USER_NAME,
    message_id: bytes = MESSAGE,
    sender: bytes = ADA,
    recipient: bytes = BOB,
) -> bytes:
    return open_payload(data, user=user, message_id=message_id, sender_key=public_key(sender), recipient_seed=recipient)


def test_the_recipient_reads_what_the_sender_sealed() -> None:
    assert opened(sealed(b"words")) == b"words"
    assert opened(sealed(b"")) == b""
    assert b"words" not in sealed(b"words")
    assert len(sealed()) == len(b"words") + DIRECT_OVERHEAD_BYTES
    assert opened(memoryview(sealed())) == b"words"  # type: ignore[arg-type]


def test_nobody_else_reads_it_and_it_cannot_be_moved() -> None:
    data = sealed()
    for attempt in (
        lambda: opened(data, recipient=CAROL),
        lambda: opened(data, sender=CAROL),
        lambda: opened(data, message_id=bytes(16)),
        lambda: opened(data, user=Fingerprint(bytes(32))),
        lambda: opened(data[:-1]),
        lambda: opened(b""),
    ):
        with pytest.raises(PayloadUnreadable):
            attempt()


def test_every_byte_of_it_matters() -> None:
    whole = sealed()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        with pytest.raises(PayloadUnreadable):
            opened(bytes(changed))


def test_a_key_that_is_none_cannot_be_sealed_to() -> None:
    with pytest.raises(InvalidInput):
        seal_payload(b"x", user=USER_NAME, message_id=MESSAGE, sender_seed=ADA, recipient_key=bytes(32))
