"""Invites: their text, their signature, their time, and what their secret proves."""

import base64
import json

import msgspec
import pytest

from parley.core import limits, sealing
from parley.core.clock import parse_iso
from parley.core.errors import InvalidInput
from parley.wire.invites import (
    PREFIX,
    Invite,
    decode_invite,
    encode_invite,
    fits_the_invite,
    has_expired,
    invite_bytes,
    invite_secret,
    is_proof_of,
    is_signed,
    join_proof,
    signed_invite,
)

ISSUER, JOINER = b"\1" * 32, b"\2" * 32
MESH_KEY = bytes(range(32))
EXPIRES_AT = "2026-02-04T23:30:45.123Z"
INVITE = Invite(
    invite_id="inv_1",
    mesh_id="mesh_1",
    mesh_slug="home",
    broker_url="wss://broker.example/ws",
    role="member",
    issuer=sealing.public_key(ISSUER).hex(),
    expires_at=EXPIRES_AT,
    uses_max=3,
    key_epoch=1,
)
CHANGES = {
    "invite_id": "inv_2",
    "mesh_id": "mesh_2",
    "mesh_slug": "house",
    "broker_url": "wss://elsewhere.example/ws",
    "role": "owner",
    "issuer": sealing.public_key(JOINER).hex(),
    "expires_at": "2027-02-04T23:30:45.123Z",
    "uses_max": 4,
    "key_epoch": 2,
}


def test_the_signed_bytes_are_every_field_but_the_signature() -> None:
    assert invite_bytes(INVITE).decode().split("\n") == [
        "parley invite 1",
        "inv_1",
        "mesh_1",
        "home",
        "wss://broker.example/ws",
        "member",
        INVITE.issuer,
        EXPIRES_AT,
        "3",
        "1",
    ]
    assert {*CHANGES, "signature"} == set(Invite.__struct_fields__)


def test_an_invite_and_its_secret_come_back_from_their_text() -> None:
    invite = signed_invite(INVITE, ISSUER)
    secret = invite_secret(MESH_KEY, invite)
    text = encode_invite(invite, secret)
    assert decode_invite(f"  {text}\n") == (invite, secret)
    assert decode_invite(encode_invite(invite)) == (invite, b"")


def test_the_text_for_the_broker_does_not_hold_the_secret_and_no_text_holds_the_mesh_key() -> None:
    invite = signed_invite(INVITE, ISSUER)
    secret = invite_secret(MESH_KEY, invite)
    whole, shown = encode_invite(invite, secret), encode_invite(invite)
    assert whole.startswith(f"{shown}.")
    for hidden in (secret, MESH_KEY):
        forms = (hidden.hex(), base64.urlsafe_b64encode(hidden).decode().rstrip("="))
        assert not any(form in shown for form in forms)
    assert base64.urlsafe_b64encode(MESH_KEY).decode().rstrip("=") not in whole


def test_an_invite_is_signed_by_its_issuer_and_nobody_else() -> None:
    assert not is_signed(INVITE)
    assert is_signed(signed_invite(INVITE, ISSUER))
    with pytest.raises(InvalidInput):
        signed_invite(INVITE, JOINER)


@pytest.mark.parametrize("field", CHANGES)
def test_no_field_of_a_signed_invite_can_be_changed(field: str) -> None:
    changed = msgspec.structs.replace(signed_invite(INVITE, ISSUER), **{field: CHANGES[field]})
    assert not is_signed(changed)


def test_the_signature_survives_the_text() -> None:
    invite, _ = decode_invite(encode_invite(signed_invite(INVITE, ISSUER)))
    assert is_signed(invite)


def test_an_invite_is_good_until_the_moment_that_it_names() -> None:
    moment = parse_iso(EXPIRES_AT)
    assert not has_expired(INVITE, moment - 1)
    assert has_expired(INVITE, moment)


def test_a_member_believes_the_proof_of_whoever_held_the_secret() -> None:
    public = sealing.public_key(JOINER)
    proof = join_proof(invite_secret(MESH_KEY, INVITE), INVITE, public)
    assert is_proof_of(proof, MESH_KEY, INVITE, public)


def test_a_broker_that_saw_everything_but_the_secret_cannot_bring_in_a_member_of_its_own() -> None:
    own = sealing.public_key(b"\3" * 32)
    seen = join_proof(invite_secret(MESH_KEY, INVITE), INVITE, sealing.public_key(JOINER))
    assert not is_proof_of(seen, MESH_KEY, INVITE, own)
    other = msgspec.structs.replace(INVITE, invite_id="inv_2")
    assert not is_proof_of(seen, MESH_KEY, other, sealing.public_key(JOINER))
    guess = join_proof(bytes(32), INVITE, own)
    assert not is_proof_of(guess, MESH_KEY, INVITE, own)


def test_the_joiner_takes_the_mesh_key_that_made_its_invite_and_no_other() -> None:
    secret = invite_secret(MESH_KEY, INVITE)
    assert fits_the_invite(MESH_KEY, secret, INVITE)
    assert not fits_the_invite(bytes(32), secret, INVITE)


def test_a_text_that_was_cut_off_or_mistyped_is_known_by_its_end() -> None:
    text = encode_invite(INVITE, invite_secret(MESH_KEY, INVITE))
    public, _, end = text.partition(".")
    swapped = end[1] + end[0] + end[2:]
    assert swapped != end
    for damaged in (text[:-1], text[:-5], f"{text[:-6]}AAAAAA", f"{public}.{swapped}", f"{text}AAAA"):
        with pytest.raises(InvalidInput, match="copy the whole text"):
            decode_invite(damaged)


def _text(**changes: object) -> str:
    fields = {**msgspec.to_builtins(signed_invite(INVITE, ISSUER)), **changes}
    return PREFIX + base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "parley-invite",
        PREFIX,
        f"{PREFIX}!!!!",
        f"{PREFIX}bm8",
        encode_invite(INVITE, b"short"),
        f"{encode_invite(INVITE)}.?",
        f"{encode_invite(INVITE)}.AAA.AAA",
        PREFIX + "A" * limits.INVITE_CHARS_MAX,
        _text(role="king"),
        _text(uses_max=0),
        _text(uses_max=limits.INVITE_USES_MAX + 1),
        _text(expires_at="tomorrow"),
        _text(mesh_slug="two\nlines"),
        _text(broker_url=""),
        _text(issuer="AB" * 32),
        _text(signature="00"),
        _text(key_epoch=-1),
        _text(note="unsigned"),
    ],
)
def test_what_is_no_invite_is_refused_without_a_word_of_the_decoder(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"begins with|has at most|was cut off or changed"):
        decode_invite(text)
