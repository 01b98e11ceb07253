"""Chains of certificates: what they allow, and everything for which one is refused."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.bus import NOTHING_REVOKED, Authority, Caveats, Chain, Revocations, decode_chain, fingerprint_of, verify
from parley.bus.chain import TAG, Certificate
from parley.bus.revocation import state
from parley.bus.signed import sign
from parley.core import limits
from parley.core.bus_errors import (
    BusError,
    CallsExhausted,
    CertificateExpired,
    ChainInvalid,
    OtherUser,
    Revoked,
    TopicRefused,
)
from parley.core.sealing import public_key
from tests.bus.agents import (
    ADA,
    ADA_NAME,
    BOB,
    BOB_NAME,
    CAROL,
    DAY,
    HOLDS,
    MALLORY,
    NOW,
    STRANGER,
    USER,
    USER_NAME,
    chain_of,
)


def judged(chain: Chain, *, now_ms: int = NOW, revocations: Revocations = NOTHING_REVOKED) -> Authority:
    return verify(decode_chain(chain.encode()), user=USER_NAME, now_ms=now_ms, revocations=revocations)


def revoked(*names: bytes, generation: int = 0) -> Revocations:
    seeds = [fingerprint_of(public_key(seed)) for seed in names]
    found = Revocations()
    for _ in range(generation):
        found = found.merge(state(USER, found, next_generation=True, now_ms=NOW))
    return found.merge(state(USER, found, seeds, next_generation=False, now_ms=NOW))


def test_a_certificate_of_the_user_gives_authority() -> None:
    authority = judged(chain_of(ADA, role="builder"))
    assert (authority.user, authority.agent, authority.agent_key) == (USER_NAME, ADA_NAME, public_key(ADA))
    assert (authority.role, authority.caveats, authority.call_limits) == ("builder", HOLDS, ())


def test_an_agent_lets_another_one_in_within_its_own_limits() -> None:
    parent = chain_of(ADA, Caveats(expires_at_ms=NOW + DAY, generation=0, topics=("alerts", "build")))
    child = chain_of(BOB, Caveats(topics=("build", "secrets"), calls_max=3), issuer=ADA, parent=parent)
    authority = judged(child)
    assert authority.agent == BOB_NAME
    assert authority.caveats == Caveats(3, NOW + DAY, 0, ("build",))


def test_a_chain_has_four_certificates_at_most() -> None:
    seeds = (USER, ADA, BOB, CAROL, STRANGER, MALLORY)
    chain = None
    for issuer, subject in pairwise(seeds[:5]):
        chain = chain_of(subject, issuer=issuer, parent=chain)
    assert chain is not None
    assert judged(chain).agent_key == public_key(STRANGER)
    with pytest.raises(ChainInvalid, match="at most 4"):
        chain_of(MALLORY, issuer=STRANGER, parent=chain)
    link = Certificate(HOLDS, NOW, public_key(STRANGER).hex(), "agent", public_key(MALLORY).hex())
    with pytest.raises(ChainInvalid, match="1 to 4"):
        decode_chain(Chain((*chain.links, sign(link, TAG, STRANGER))).encode())


def test_a_chain_without_a_certificate_is_refused() -> None:
    with pytest.raises(ChainInvalid, match="not 0"):
        decode_chain(b"\0")


def test_nobody_lets_in_under_a_chain_that_is_not_theirs() -> None:
    with pytest.raises(ChainInvalid, match="not that of the issuer"):
        chain_of(BOB, issuer=CAROL, parent=chain_of(ADA))


def test_a_certificate_that_was_issued_by_somebody_else_than_the_subject_above_is_refused() -> None:
    above = chain_of(ADA)
    link = Certificate(HOLDS, NOW, public_key(CAROL).hex(), "agent", public_key(BOB).hex())
    with pytest.raises(ChainInvalid, match="subject of the one above"):
        judged(Chain((*above.links, sign(link, TAG, CAROL))))


@pytest.mark.parametrize(
    "more", [Caveats(), msgspec.structs.replace(HOLDS, generation=1), Caveats(expires_at_ms=NOW + 91 * DAY)]
)
def test_a_certificate_that_allows_more_than_the_one_above_is_refused(more: Caveats) -> None:
    above = chain_of(ADA)
    link = Certificate(more, NOW, public_key(ADA).hex(), "agent", public_key(BOB).hex())
    with pytest.raises(ChainInvalid, match="allows more"):
        judged(Chain((*above.links, sign(link, TAG, ADA))))


def test_a_signature_by_another_key_is_refused() -> None:
    link = Certificate(HOLDS, NOW, public_key(USER).hex(), "agent", public_key(ADA).hex())
    with pytest.raises(ChainInvalid, match="not signed by the issuer"):
        judged(Chain((sign(link, TAG, MALLORY),)))


def test_a_signature_over_another_kind_of_text_is_refused() -> None:
    link = Certificate(HOLDS, NOW, public_key(USER).hex(), "agent", public_key(ADA).hex())
    with pytest.raises(ChainInvalid, match="not signed by the issuer"):
        judged(Chain((sign(link, b"parley bus request 1\n", USER),)))


def test_another_users_certificate_is_refused_and_known_as_such() -> None:
    with pytest.raises(OtherUser) as refusal:
        judged(chain_of(ADA, issuer=STRANGER))
    assert refusal.value.details == {"user": fingerprint_of(public_key(STRANGER)).hex()}
    accepted = verify(chain_of(ADA, issuer=STRANGER), user=None, now_ms=NOW, revocations=NOTHING_REVOKED)
    assert accepted.user == fingerprint_of(public_key(STRANGER))


def test_a_certificate_ends_at_the_very_moment_that_it_names_and_can_be_renewed() -> None:
    chain = chain_of(ADA)
    assert judged(chain, now_ms=NOW + 90 * DAY - 1)
    with pytest.raises(CertificateExpired) as refusal:
        judged(chain, now_ms=NOW + 90 * DAY)
    assert refusal.value.transient


def test_a_chain_ends_with_the_first_of_its_certificates() -> None:
    parent = chain_of(ADA, Caveats(expires_at_ms=NOW + 1))
    with pytest.raises(CertificateExpired):
        judged(chain_of(BOB, Caveats(), issuer=ADA, parent=parent), now_ms=NOW + 1)


@pytest.mark.parametrize("seed", [USER, ADA, BOB], ids=["the user", "the agent between", "the agent"])
def test_a_chain_with_a_revoked_key_anywhere_is_refused(seed: bytes) -> None:
    chain = chain_of(BOB, issuer=ADA, parent=chain_of(ADA))
    assert judged(chain, revocations=revoked(CAROL))
    with pytest.raises(Revoked) as refusal:
        judged(chain, revocations=revoked(CAROL, seed))
    assert refusal.value.details == {"key": fingerprint_of(public_key(seed)).hex()}


def test_a_certificate_of_an_older_generation_is_refused_and_one_of_none_is_not() -> None:
    of_one = chain_of(ADA, Caveats(generation=1))
    assert judged(of_one, revocations=revoked(generation=0)), "a peer that has not heard of the new generation yet"
    assert judged(of_one, revocations=revoked(generation=1))
    with pytest.raises(Revoked):
        judged(of_one, revocations=revoked(generation=2))
    assert judged(chain_of(ADA, Caveats()), revocations=revoked(generation=2))


def test_topics_are_compared_as_they_are() -> None:
    authority = judged(chain_of(ADA, Caveats(topics=("alerts",))))
    authority.require_topic("alerts")
    for other in ("alert", "alerts.all", "Alerts", ""):
        with pytest.raises(TopicRefused):
            authority.require_topic(other)
    judged(chain_of(ADA, Caveats())).require_topic("anything")
    with pytest.raises(TopicRefused):
        judged(chain_of(ADA, Caveats(topics=()))).require_topic("alerts")


def test_every_certificate_that_counts_calls_is_counted() -> None:
    parent = chain_of(ADA, Caveats(calls_max=5))
    between = chain_of(BOB, Caveats(), issuer=ADA, parent=parent)
    chain = chain_of(CAROL, Caveats(calls_max=2), issuer=BOB, parent=between)
    found = judged(chain).call_limits
    assert [each.calls_max for each in found] == [5, 5, 2]
    assert len({each.certificate for each in found}) == 3
    assert judged(parent).call_limits == found[:1]


def test_calls_end_when_all_are_used() -> None:
    authority = judged(chain_of(ADA, Caveats(calls_max=2)))
    (limit,) = authority.call_limits
    authority.require_calls(limit, 1)
    with pytest.raises(CallsExhausted):
        authority.require_calls(limit, 2)


def test_refusals_come_in_one_order() -> None:
    """A chain that is forged, foreign, revoked and expired is called forged first."""
    foreign = chain_of(ADA, Caveats(expires_at_ms=NOW), issuer=STRANGER)
    forged = Chain((foreign.links[0]._replace(signature=bytes(64)),))
    known = revoked(ADA)
    for chain, refusal in ((forged, ChainInvalid), (foreign, OtherUser)):
        with pytest.raises(refusal):
            judged(chain, revocations=known)
    with pytest.raises(Revoked):
        judged(chain_of(ADA, Caveats(expires_at_ms=NOW)), revocations=known)


def test_a_text_that_is_not_canonical_is_refused() -> None:
    (link,) = chain_of(ADA).links
    spaced = link._replace(text=link.text.replace(b":", b": ", 1))
    with pytest.raises(ChainInvalid, match="canonical"):
        decode_chain(Chain((spaced,)).encode())


def test_a_certificate_that_is_too_large_is_refused_before_it_is_decoded() -> None:
    (link,) = chain_of(ADA).links
    large = link._replace(text=b" " * (limits.BUS_CERTIFICATE_BYTES_MAX + 1))
    with pytest.raises(ChainInvalid, match="longer than 16384"):
        decode_chain(Chain((large,)).encode())


def test_every_byte_of_a_chain_matters() -> None:
    whole = chain_of(BOB, issuer=ADA, parent=chain_of(ADA)).encode()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        with pytest.raises(BusError):
            verify(decode_chain(changed), user=USER_NAME, now_ms=NOW, revocations=NOTHING_REVOKED)
    for length in range(len(whole)):
        with pytest.raises(ChainInvalid):
            decode_chain(whole[:length])
    with pytest.raises(ChainInvalid, match="too many"):
        decode_chain(whole + b"\0")


@settings(max_examples=200)
@given(st.binary(max_size=300) | st.binary(max_size=60).map(lambda tail: chain_of().encode()[:200] + tail))
def test_bytes_that_are_no_chain_raise_nothing_else(data: bytes) -> None:
    with pytest.raises(ChainInvalid):
        decode_chain(data)
