"""Requests and grants: what a machine asks with, and what it is let in with."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.bus import NOTHING_REVOKED, Caveats
from parley.bus.blocks import block
from parley.bus.enrolment import (
    TAG,
    Grant,
    Request,
    check_grant,
    is_due,
    issue_grant,
    read_grant,
    read_request,
    renewed,
    request_line,
)
from parley.bus.lines import write_line
from parley.bus.signed import sign
from parley.bus.x509 import TlsCertificates
from parley.core.bus_errors import BusError, ChainInvalid, LineInvalid, OtherUser
from parley.core.errors import InvalidInput
from parley.core.sealing import public_key
from tests.bus.agents import ADA, BOB, DAY, HOLDS, MALLORY, NOW, STRANGER, USER, USER_NAME


def granted(seed: bytes = ADA, *, user: bytes = USER, caveats: Caveats = HOLDS, role: str = "agent") -> Grant:
    return issue_grant(user, public_key(seed), role=role, caveats=caveats, now_ms=NOW)


def checked(grant: Grant) -> Any:
    return check_grant(read_grant(grant.line()), user=USER_NAME, now_ms=NOW, revocations=NOTHING_REVOKED)


def test_a_request_names_the_key_that_signed_it() -> None:
    found = read_request(request_line(ADA, host="büro", now_ms=NOW))
    assert found == Request(public_key(ADA).hex(), "büro", NOW)


def test_a_request_for_a_key_that_its_maker_does_not_have_is_refused() -> None:
    """Otherwise somebody could have a key of another machine certified with limits of their choice."""
    forged = sign(Request(public_key(ADA).hex(), "office", NOW), TAG, MALLORY)
    with pytest.raises(LineInvalid) as refusal:
        read_request(write_line("request", forged.encode()))
    assert refusal.value.details["reason"] == "forged"


@pytest.mark.parametrize("payload", [b"", b"x", block(b"{}") + bytes(64), block(b"null") + bytes(64)])
def test_a_request_that_is_none_is_refused(payload: bytes) -> None:
    with pytest.raises(LineInvalid) as refusal:
        read_request(write_line("request", payload))
    assert refusal.value.details["reason"] == "malformed"


def test_a_host_that_could_steer_a_terminal_is_no_host() -> None:
    with pytest.raises(InvalidInput):
        request_line(ADA, host="office\x1b[2J", now_ms=NOW)


def test_a_grant_carries_the_chain_and_both_certificates() -> None:
    grant = granted(role="builder")
    assert read_grant(grant.line()) == grant
    authority = checked(grant)
    assert (authority.user, authority.role, authority.caveats) == (USER_NAME, "builder", HOLDS)
    assert len(grant.line()) < 4_096, "it fits into a line that a terminal takes"


def test_a_grant_of_another_user_is_refused() -> None:
    with pytest.raises(OtherUser):
        checked(granted(user=STRANGER))


@pytest.mark.parametrize(
    "tls",
    [
        granted(BOB).tls,
        granted(user=STRANGER).tls,
        TlsCertificates(granted(user=STRANGER).tls.leaf, granted().tls.root),
        TlsCertificates(granted().tls.root, granted().tls.root),
        TlsCertificates(granted().tls.leaf, granted().tls.leaf),
        TlsCertificates(b"", b""),
        TlsCertificates(b"0" * 100, granted().tls.root),
    ],
    ids=["of another agent", "by another user", "with a leaf by another user", "two roots", "two leaves", "no", "junk"],
)
def test_certificates_that_do_not_fit_the_chain_are_refused(tls: TlsCertificates) -> None:
    with pytest.raises(ChainInvalid):
        checked(granted()._replace(tls=tls))


def test_every_byte_of_a_grant_matters() -> None:
    grant = granted()
    payload = b"".join(map(block, (grant.chain.encode(), *grant.tls)))
    for at in range(len(payload)):
        changed = bytearray(payload)
        changed[at] ^= 1
        with pytest.raises(BusError):
            check_grant(
                read_grant(write_line("grant", bytes(changed))),
                user=USER_NAME,
                now_ms=NOW,
                revocations=NOTHING_REVOKED,
            )


@settings(max_examples=100)
@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=60))
def test_no_payload_raises_anything_else(leaf: bytes, root: bytes, rest: bytes) -> None:
    chain = granted().chain.encode()
    for payload in (rest, block(chain) + block(leaf) + block(root) + rest):
        with pytest.raises(BusError):
            check_grant(
                read_grant(write_line("grant", payload)), user=USER_NAME, now_ms=NOW, revocations=NOTHING_REVOKED
            )


@pytest.mark.parametrize(
    ("role", "caveats"),
    [
        ("", HOLDS),
        ("r" * 65, HOLDS),
        ("two\nlines", HOLDS),
        ("agent", Caveats(topics=("",))),
        ("agent", Caveats(topics=("t" * 201,))),
        ("agent", Caveats(topics=tuple(f"{number:03}" for number in range(65)))),
        ("agent", Caveats(topics=tuple(f"{number:02}" + "ü" * 198 for number in range(64)))),
        ("agent", Caveats(calls_max=-1)),
    ],
)
def test_nothing_is_issued_that_nobody_could_read(role: str, caveats: Caveats) -> None:
    with pytest.raises(InvalidInput):
        granted(role=role, caveats=caveats)


def test_a_grant_is_renewed_for_as_long_as_it_was_and_for_the_present_generation() -> None:
    old = granted(caveats=Caveats(calls_max=3, expires_at_ms=NOW + 90 * DAY, generation=0, topics=("a",)))
    later = NOW + 80 * DAY
    new = renewed(USER, old.chain, generation=2, now_ms=later)
    assert new.chain.last.caveats == Caveats(3, later + 90 * DAY, 2, ("a",))
    assert (new.chain.last.role, new.chain.agent_key) == (old.chain.last.role, old.chain.agent_key)
    assert checked(new)


def test_what_does_not_end_is_renewed_as_it_is() -> None:
    old = granted(caveats=Caveats())
    assert renewed(USER, old.chain, generation=2, now_ms=NOW + DAY).chain.last.caveats == Caveats()
    assert not is_due(old.chain, generation=2, now_ms=NOW + 1_000 * DAY)


@pytest.mark.parametrize(
    ("days", "after", "due"),
    [(90, 59, False), (90, 61, True), (365, 334, False), (365, 336, True), (3, 1, False), (3, 2.5, True)],
)
def test_what_ends_within_thirty_days_is_due(days: int, after: float, due: bool) -> None:
    """Or in the last third of a shorter life: a certificate for three days is not renewed each hour."""
    grant = granted(caveats=msgspec.structs.replace(HOLDS, expires_at_ms=NOW + days * DAY))
    assert is_due(grant.chain, generation=0, now_ms=NOW + round(after * DAY)) is due


def test_what_is_of_an_older_generation_is_due() -> None:
    assert is_due(granted().chain, generation=1, now_ms=NOW)
    assert not is_due(granted().chain, generation=0, now_ms=NOW)
