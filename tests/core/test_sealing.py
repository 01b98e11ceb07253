"""Keys, signatures and seals, with published vectors, frozen ones of our own, and every byte tampered with."""

import hashlib
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.public import Box
from nacl.secret import SecretBox
from nacl.signing import SigningKey, VerifyKey

from parley.core import sealing
from parley.core.errors import InvalidInput
from parley.core.sealing import Context

ALICE, BOB, CAROL = (bytes([number]) * 32 for number in (1, 2, 3))
MESH_KEY = bytes(range(32))
SENDER = sealing.public_key(ALICE)
RECIPIENT = sealing.public_key(BOB)
TOPIC = Context("mesh_1", "topic", "alerts", SENDER.hex())
DIRECT = Context("mesh_1", "dm", RECIPIENT.hex(), SENDER.hex())
OTHER_CONTEXTS = {
    "another mesh": TOPIC._replace(mesh_id="mesh_2"),
    "another kind": TOPIC._replace(kind="queue"),
    "another topic": TOPIC._replace(ref="alert"),
    "a part moved into its neighbour": TOPIC._replace(kind="topica", ref="lerts"),
    "another sender": TOPIC._replace(sender=RECIPIENT.hex()),
    "an answer": TOPIC._replace(reply_to="msg_1"),
}
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
]


def fixed(byte: int = 7) -> Callable[[int], bytes]:
    return lambda count: bytes([byte]) * count


@pytest.mark.parametrize(("seed", "public", "data", "signature"), RFC_8032)
def test_signatures_are_those_of_rfc_8032(seed: str, public: str, data: str, signature: str) -> None:
    assert sealing.public_key(bytes.fromhex(seed)).hex() == public
    assert sealing.sign(bytes.fromhex(seed), bytes.fromhex(data)).hex() == signature
    assert sealing.verify(bytes.fromhex(public), bytes.fromhex(signature), bytes.fromhex(data))


def test_a_signature_is_of_one_key_over_one_text() -> None:
    signature = sealing.sign(ALICE, b"hello")
    assert not sealing.verify(SENDER, signature, b"hello!")
    assert not sealing.verify(RECIPIENT, signature, b"hello")
    assert not sealing.verify(SENDER, signature[:-1], b"hello")
    assert not sealing.verify(SENDER[:-1], signature, b"hello")
    assert not sealing.verify(SENDER, signature[:-1] + b"\0", b"hello")


def test_a_direct_message_is_a_plain_box_whose_text_begins_with_its_context() -> None:
    sealed = sealing.seal_direct(b"hello", DIRECT, sender_seed=ALICE, recipient=RECIPIENT, random=fixed())
    box = Box(SigningKey(BOB).to_curve25519_private_key(), VerifyKey(SENDER).to_curve25519_public_key())
    digest = hashlib.blake2b(
        f'["parley message 1","mesh_1","dm","{RECIPIENT.hex()}","{SENDER.hex()}",""]'.encode(), digest_size=32
    ).digest()
    assert box.decrypt(sealed) == digest + b"hello"
    assert len(sealed) == len(b"hello") + sealing.DIRECT_OVERHEAD_BYTES
    assert sealing.open_direct(sealed, DIRECT, recipient_seed=BOB) == b"hello"


def test_a_shared_message_is_a_plain_secretbox_under_a_key_derived_from_its_context() -> None:
    sealed = sealing.seal_shared(b"hello", TOPIC, mesh_key=MESH_KEY, random=fixed())
    key = hashlib.blake2b(
        f'["parley message 1","mesh_1","topic","alerts","{SENDER.hex()}",""]'.encode(), key=MESH_KEY, digest_size=32
    ).digest()
    assert SecretBox(key).decrypt(sealed) == b"hello"
    assert len(sealed) == len(b"hello") + sealing.SHARED_OVERHEAD_BYTES
    assert sealing.open_shared(sealed, TOPIC, mesh_key=MESH_KEY) == b"hello"


def test_what_was_sealed_by_earlier_releases_still_opens() -> None:
    """Frozen bytes: an outbox keeps its ciphertext, and an inbox what it could not read yet, across upgrades."""
    direct = (
        "0707070707070707070707070707070707070707070707074bf1231e81aee9a01fb49e10173d4f1f1f83f57eed8ed967"
        "44d1826331632ac94e83dd63571d24deb36f64c52dde055f0d959e1132"
    )
    shared = "0707070707070707070707070707070707070707070707070ca6812ec64716ab9d41ed3d2f18bef3755e5a30b3"
    assert sealing.open_direct(bytes.fromhex(direct), DIRECT, recipient_seed=BOB) == b"hello"
    assert sealing.open_shared(bytes.fromhex(shared), TOPIC, mesh_key=MESH_KEY) == b"hello"


@given(st.binary(max_size=300))
def test_any_text_comes_back(text: bytes) -> None:
    direct = sealing.seal_direct(text, DIRECT, sender_seed=ALICE, recipient=RECIPIENT)
    assert sealing.open_direct(direct, DIRECT, recipient_seed=BOB) == text
    shared = sealing.seal_shared(text, TOPIC, mesh_key=MESH_KEY)
    assert sealing.open_shared(shared, TOPIC, mesh_key=MESH_KEY) == text


def test_a_changed_byte_anywhere_breaks_the_seal() -> None:
    direct = sealing.seal_direct(b"hello", DIRECT, sender_seed=ALICE, recipient=RECIPIENT)
    shared = sealing.seal_shared(b"hello", TOPIC, mesh_key=MESH_KEY)
    for at in range(len(direct)):
        assert sealing.open_direct(_changed(direct, at), DIRECT, recipient_seed=BOB) is None
    for at in range(len(shared)):
        assert sealing.open_shared(_changed(shared, at), TOPIC, mesh_key=MESH_KEY) is None


def test_what_is_cut_short_is_broken() -> None:
    direct = sealing.seal_direct(b"hello", DIRECT, sender_seed=ALICE, recipient=RECIPIENT)
    shared = sealing.seal_shared(b"hello", TOPIC, mesh_key=MESH_KEY)
    for length in range(len(direct)):
        assert sealing.open_direct(direct[:length], DIRECT, recipient_seed=BOB) is None
    for length in range(len(shared)):
        assert sealing.open_shared(shared[:length], TOPIC, mesh_key=MESH_KEY) is None


@pytest.mark.parametrize("other", OTHER_CONTEXTS.values(), ids=OTHER_CONTEXTS.keys())
def test_a_seal_opens_in_its_own_context_only(other: Context) -> None:
    shared = sealing.seal_shared(b"hello", TOPIC, mesh_key=MESH_KEY)
    assert sealing.open_shared(shared, other, mesh_key=MESH_KEY) is None
    direct = sealing.seal_direct(b"hello", TOPIC, sender_seed=ALICE, recipient=RECIPIENT)
    assert sealing.open_direct(direct, other, recipient_seed=BOB) is None


def test_a_direct_message_cannot_be_sent_back_as_its_recipients_own() -> None:
    """A box is the same in both directions, so it is the context that tells them apart."""
    sealed = sealing.seal_direct(b"yes", DIRECT, sender_seed=ALICE, recipient=RECIPIENT)
    back = Context("mesh_1", "dm", SENDER.hex(), RECIPIENT.hex())
    assert sealing.open_direct(sealed, back, recipient_seed=ALICE) is None


def test_a_third_member_opens_no_direct_message_and_a_stranger_no_shared_one() -> None:
    direct = sealing.seal_direct(b"hello", DIRECT, sender_seed=ALICE, recipient=RECIPIENT)
    assert sealing.open_direct(direct, DIRECT, recipient_seed=CAROL) is None
    shared = sealing.seal_shared(b"hello", TOPIC, mesh_key=MESH_KEY)
    assert sealing.open_shared(shared, TOPIC, mesh_key=bytes(32)) is None


@pytest.mark.parametrize("no_key", [b"", b"\0" * 32, b"\xff" * 32, b"\1" + b"\0" * 31])
def test_what_is_no_public_key_is_refused_and_opens_nothing(no_key: bytes) -> None:
    with pytest.raises(InvalidInput):
        sealing.seal_direct(b"hello", DIRECT, sender_seed=ALICE, recipient=no_key)
    sealed = sealing.seal_direct(b"hello", DIRECT, sender_seed=ALICE, recipient=RECIPIENT)
    assert sealing.open_direct(sealed, DIRECT._replace(sender=no_key.hex()), recipient_seed=BOB) is None
    assert sealing.open_direct(sealed, DIRECT._replace(sender="no hexadecimal"), recipient_seed=BOB) is None
    assert not sealing.verify(no_key, sealing.sign(ALICE, b""), b"")


def test_the_mesh_key_reaches_the_member_that_it_is_sealed_to() -> None:
    sealed = sealing.seal_mesh_key(MESH_KEY, mesh_id="mesh_1", key_epoch=3, sender_seed=ALICE, recipient=RECIPIENT)

    def opened(mesh_id: str = "mesh_1", key_epoch: int = 3, sender: bytes = SENDER, seed: bytes = BOB) -> bytes | None:
        return sealing.open_mesh_key(sealed, mesh_id=mesh_id, key_epoch=key_epoch, sender=sender, recipient_seed=seed)

    assert opened() == MESH_KEY
    assert opened(mesh_id="mesh_2") is None
    assert opened(key_epoch=4) is None
    assert opened(sender=sealing.public_key(CAROL)) is None
    assert opened(seed=CAROL) is None


def test_a_direct_message_is_never_taken_for_a_mesh_key() -> None:
    sealed = sealing.seal_direct(MESH_KEY, DIRECT, sender_seed=ALICE, recipient=RECIPIENT)
    assert sealing.open_mesh_key(sealed, mesh_id="mesh_1", key_epoch=0, sender=SENDER, recipient_seed=BOB) is None


def test_a_mesh_key_of_another_length_is_none() -> None:
    sealed = sealing.seal_mesh_key(b"short", mesh_id="mesh_1", key_epoch=3, sender_seed=ALICE, recipient=RECIPIENT)
    assert sealing.open_mesh_key(sealed, mesh_id="mesh_1", key_epoch=3, sender=SENDER, recipient_seed=BOB) is None


def test_derived_keys_differ_by_key_purpose_and_parts() -> None:
    keys = {
        sealing.derive_key(MESH_KEY, "ops"),
        sealing.derive_key(MESH_KEY, "blobs"),
        sealing.derive_key(bytes(32), "ops"),
        sealing.derive_key(MESH_KEY, "ops", "a"),
        sealing.derive_key(MESH_KEY, "ops", "a", "b"),
        sealing.derive_key(MESH_KEY, "ops", "ab"),
        sealing.derive_key(MESH_KEY, "ops", 1),
        sealing.derive_key(MESH_KEY, "ops", "1"),
    }
    assert len(keys) == 8
    assert sealing.same_key(sealing.derive_key(MESH_KEY, "ops"), sealing.derive_key(MESH_KEY, "ops"))


def test_the_safety_number_is_the_contracts_and_the_same_for_both() -> None:
    """mesh contract 6.3: sha256 of the lower key and the higher, 15 bytes, six groups of 20 bits modulo 100000."""
    digest = hashlib.sha256(min(SENDER, RECIPIENT) + max(SENDER, RECIPIENT)).hexdigest()[:30]
    expected = [int(digest[at : at + 5], 16) % 100_000 for at in range(0, 30, 5)]
    assert sealing.safety_number(SENDER, RECIPIENT) == " ".join(f"{group:05d}" for group in expected)
    assert sealing.safety_number(RECIPIENT, SENDER) == sealing.safety_number(SENDER, RECIPIENT)
    assert sealing.safety_number(SENDER, sealing.public_key(CAROL)) != sealing.safety_number(SENDER, RECIPIENT)


def test_all_randomness_is_the_callers_when_it_hands_some_in() -> None:
    assert sealing.new_key(fixed(9)) == b"\x09" * 32
    one, again, other = (
        sealing.seal_shared(b"hello", TOPIC, mesh_key=MESH_KEY, random=fixed(byte)) for byte in (7, 7, 8)
    )
    assert one == again != other
    assert sealing.new_key() != sealing.new_key()


def test_nacl_is_loaded_on_first_use_only() -> None:
    code = "import parley.core.sealing, parley.wire.invites, sys; print('nacl' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def _changed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_not_every_key_can_be_sealed_to() -> None:
    assert sealing.can_be_sealed_to(RECIPIENT)
    for other in (bytes(32), b"\x01" + bytes(31), RECIPIENT[:-1], b"", b"\xff" * 32):
        assert not sealing.can_be_sealed_to(other)
