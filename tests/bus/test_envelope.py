"""Envelopes as bytes: their format, every byte of them, and whom they are believed."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey

from parley.bus import Caveats, Fingerprint, Head, decode, encode, fingerprint_of, open_envelope, short
from parley.bus.envelope import HEAD_BYTES
from parley.bus.revocation import NOTHING_REVOKED, state
from parley.core import limits
from parley.core.bus_errors import (
    BusError,
    CertificateExpired,
    ChainInvalid,
    EnvelopeInvalid,
    FrameTooLarge,
    OtherUser,
    Revoked,
    WrongRecipient,
)
from parley.core.errors import InvalidInput
from parley.core.sealing import public_key
from tests.bus.agents import (
    ADA,
    ADA_NAME,
    BOB_NAME,
    CAROL,
    DAY,
    MALLORY,
    NOW,
    STRANGER,
    USER,
    USER_NAME,
    chain_of,
    envelope_of,
    opened_by_bob,
)

VECTORS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("vectors.json").read_text())
FLAGS_AT = HEAD_BYTES - 33


def test_an_envelope_arrives_as_it_was_sent() -> None:
    opened = opened_by_bob(envelope_of(b"hello"))
    assert opened.head == Head(ADA_NAME, BOB_NAME, bytes(range(24)), 7, bytes(range(16)), sealed=False)
    assert bytes(opened.payload) == b"hello"
    assert opened.authority.agent == ADA_NAME


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_vector_is_what_another_program_would_write(vector: dict[str, Any]) -> None:
    """Written from the description of the format alone, with other libraries where there are any."""
    sender = SigningKey(bytes.fromhex(vector["sender_seed"]))
    links = b""
    for certificate in vector["certificates"]:
        text = json.dumps(certificate["text"], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        issuer = SigningKey(bytes.fromhex(certificate["issuer_seed"]))
        links += struct.pack(">I", len(text)) + text + issuer.sign(b"parley bus certificate 1\n" + text).signature
    chain = bytes([len(vector["certificates"])]) + links
    payload = bytes.fromhex(vector["payload"])
    head = b"".join(
        (
            b"parley bus envelope\x01",
            blake3(bytes(sender.verify_key)).digest(),
            bytes.fromhex(vector["recipient"]),
            bytes.fromhex(vector["nonce"]),
            struct.pack(">Q", vector["sequence"]),
            bytes.fromhex(vector["message_id"]),
            bytes([vector["flags"]]),
            blake3(payload).digest(),
        )
    )
    tail = struct.pack(">I", len(chain)) + chain + struct.pack(">I", len(payload)) + payload
    assert (head + sender.sign(head).signature + tail).hex() == vector["envelope"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_vector_is_written_and_read(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["envelope"])
    read = decode(data)
    assert read.head == Head(
        fingerprint_of(public_key(bytes.fromhex(vector["sender_seed"]))),
        Fingerprint(bytes.fromhex(vector["recipient"])),
        bytes.fromhex(vector["nonce"]),
        vector["sequence"],
        bytes.fromhex(vector["message_id"]),
        bool(vector["flags"]),
    )
    before = encode(read.head, read.payload, chain=bytes(read.chain), seed=bytes.fromhex(vector["sender_seed"]))
    assert before + bytes(read.payload) == data
    user = Fingerprint(bytes.fromhex(vector["user"]))
    opened = open_envelope(read, recipient=read.head.recipient, user=user, now_ms=NOW, revocations=NOTHING_REVOKED)
    assert opened.authority.role == vector["certificates"][-1]["text"]["role"]


def test_every_byte_of_an_envelope_matters() -> None:
    whole = envelope_of(b"small")
    assert opened_by_bob(whole)
    for at in range(len(whole)):
        for bit in (0x01, 0x80):
            changed = bytearray(whole)
            changed[at] ^= bit
            with pytest.raises(BusError):
                opened_by_bob(bytes(changed))


def test_an_envelope_that_is_cut_off_or_goes_on_is_refused() -> None:
    whole = envelope_of(b"small")
    for length in range(len(whole)):
        with pytest.raises(EnvelopeInvalid):
            decode(whole[:length])
    with pytest.raises(EnvelopeInvalid, match="1 bytes too many"):
        decode(whole + b"\0")


@settings(max_examples=300)
@given(
    st.binary(max_size=400)
    | st.tuples(st.integers(0, 900), st.binary(max_size=40)).map(lambda part: envelope_of()[: part[0]] + part[1])
)
def test_no_bytes_raise_anything_but_our_errors(data: bytes) -> None:
    if data == envelope_of():
        return
    with pytest.raises(BusError):
        opened_by_bob(data)


@pytest.mark.parametrize("flags", [2, 3, 0x80])
def test_a_flag_that_is_not_known_is_refused(flags: int) -> None:
    changed = bytearray(envelope_of())
    changed[FLAGS_AT] = flags
    with pytest.raises(EnvelopeInvalid, match="flags"):
        decode(changed)


def test_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(EnvelopeInvalid, match="version 2"):
        decode(envelope_of().replace(b"envelope\x01", b"envelope\x02", 1))


def test_neither_side_copies_a_payload() -> None:
    payload = b"x" * 100_000
    data = memoryview(envelope_of(payload))
    assert decode(data).payload.obj is data.obj
    head = Head(ADA_NAME, BOB_NAME, bytes(24), 1, bytes(16))
    assert len(encode(head, memoryview(payload), chain=chain_of().encode(), seed=ADA)) < 2_000


def test_an_envelope_for_somebody_else_is_refused() -> None:
    with pytest.raises(WrongRecipient):
        opened_by_bob(envelope_of(recipient=CAROL))


def test_a_sender_with_the_certificate_of_another_agent_is_refused() -> None:
    with pytest.raises(EnvelopeInvalid, match="not that of the sender"):
        opened_by_bob(envelope_of(sender=MALLORY, chain=chain_of(ADA)))


def test_a_sender_who_signs_with_a_key_of_its_own_in_the_name_of_another_is_refused() -> None:
    head = Head(ADA_NAME, BOB_NAME, bytes(24), 1, bytes(16))
    forged = encode(head, b"x", chain=chain_of(ADA).encode(), seed=MALLORY) + b"x"
    with pytest.raises(EnvelopeInvalid, match="not signed by the sender"):
        opened_by_bob(forged)


def test_another_payload_than_the_signed_one_is_refused() -> None:
    with pytest.raises(EnvelopeInvalid, match="payload"):
        opened_by_bob(envelope_of(b"small").replace(b"small", b"SMALL"))


def test_another_users_agent_is_refused() -> None:
    with pytest.raises(OtherUser):
        opened_by_bob(envelope_of(chain=chain_of(ADA, issuer=STRANGER)))


def test_an_expired_and_a_revoked_sender_are_refused() -> None:
    with pytest.raises(CertificateExpired):
        opened_by_bob(envelope_of(), now_ms=NOW + 90 * DAY)
    known = NOTHING_REVOKED.merge(state(USER, NOTHING_REVOKED, [ADA_NAME], next_generation=False, now_ms=NOW))
    with pytest.raises(Revoked):
        opened_by_bob(envelope_of(), revocations=known)


def test_a_chain_that_is_none_is_refused() -> None:
    head = Head(ADA_NAME, BOB_NAME, bytes(24), 1, bytes(16))
    with pytest.raises(ChainInvalid):
        opened_by_bob(encode(head, b"x", chain=b"nothing", seed=ADA) + b"x")


def test_an_agent_of_an_agent_is_believed_within_its_limits() -> None:
    chain = chain_of(CAROL, Caveats(topics=("build",)), issuer=ADA, parent=chain_of(ADA))
    opened = opened_by_bob(envelope_of(sender=CAROL, chain=chain))
    assert opened.authority.caveats.topics == ("build",)


def test_a_frame_is_bounded_on_both_sides() -> None:
    chain = chain_of().encode()
    head = Head(ADA_NAME, BOB_NAME, bytes(24), 1, bytes(16))
    room = limits.BUS_FRAME_BYTES_MAX - len(encode(head, b"", chain=chain, seed=ADA))
    payload = bytes(room)
    largest = encode(head, payload, chain=chain, seed=ADA) + payload
    assert len(decode(largest).payload) == room
    with pytest.raises(FrameTooLarge):
        encode(head, bytes(room + 1), chain=chain, seed=ADA)
    with pytest.raises(FrameTooLarge):
        decode(largest + b"\0")


def test_a_length_that_promises_more_than_there_is_takes_no_memory() -> None:
    data = bytearray(envelope_of())
    data[HEAD_BYTES + 64 : HEAD_BYTES + 68] = b"\xff\xff\xff\xff"
    with pytest.raises(EnvelopeInvalid, match="longer than"):
        decode(data)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sender", b"short"),
        ("recipient", bytes(33)),
        ("nonce", bytes(23)),
        ("message_id", bytes(17)),
        ("sequence", 0),
        ("sequence", 2**64),
    ],
)
def test_a_field_of_another_length_is_not_padded_or_cut(field: str, value: Any) -> None:
    head = Head(ADA_NAME, BOB_NAME, bytes(24), 1, bytes(16))._replace(**{field: value})
    with pytest.raises(InvalidInput) as refusal:
        encode(head, b"", chain=chain_of().encode(), seed=ADA)
    assert refusal.value.details == {"field": field}


def test_fingerprints_are_blake3_of_the_raw_key() -> None:
    assert blake3(bytes(SigningKey(USER).verify_key)).digest() == USER_NAME
    assert short(USER_NAME) == USER_NAME.hex()[:12]
