"""The link alone: frames in, meanings out, no network and no clock."""

import pytest

from parley.bus import Caveats, Identity
from parley.bus.link import KEEPALIVE, Arrived, Learned, Link, Met, Refused, TopicsTold, Unacceptable, refusal_of
from parley.bus.link_frames import Alive, Answer, Hello, Refusal, Statements, Topics, encode_frame
from parley.bus.revocation import NOTHING_REVOKED, state
from parley.bus.trust import Trust
from parley.core.bus_errors import (
    ChainInvalid,
    EnvelopeInvalid,
    LinkInvalid,
    OtherUser,
    PeerBusy,
    Revoked,
    StatementInvalid,
    StoreFailed,
)
from tests.bus.agents import ADA, ADA_NAME, BOB, CAROL, NOW, STRANGER, USER, chain_of, envelope_of
from tests.bus.world import name_of

REVOKED_ADA = state(USER, NOTHING_REVOKED, [ADA_NAME], next_generation=False, now_ms=NOW).encode()
REVOKED_CAROL = state(USER, NOTHING_REVOKED, [name_of(CAROL)], next_generation=False, now_ms=NOW).encode()


def bobs_link() -> Link:
    """Bob's side, to somebody who holds Ada's key."""
    return Link(Trust(Identity(BOB, chain_of(BOB))), ADA_NAME)


def hello(*, topics: tuple[str, ...] = (), statements: tuple[bytes, ...] = (), caveats: Caveats | None = None) -> bytes:
    chain = chain_of(ADA) if caveats is None else chain_of(ADA, caveats)
    return encode_frame(Hello(b"i" * 16, 1, chain.encode(), topics, statements))


def met() -> Link:
    link = bobs_link()
    assert isinstance(link.receive(hello(), NOW), Met)
    return link


@pytest.mark.parametrize(
    "frame", [envelope_of(), encode_frame(Answer(1, "accepted")), encode_frame(Topics(())), KEEPALIVE]
)
def test_nothing_comes_before_a_hello(frame: bytes) -> None:
    with pytest.raises(LinkInvalid):
        bobs_link().receive(frame, NOW)
    met().receive(frame, NOW)


def test_a_peer_says_hello_once() -> None:
    with pytest.raises(LinkInvalid):
        met().receive(hello(), NOW)


def test_what_is_said_is_told_as_what_it_means() -> None:
    link = met()
    arrived = link.receive(envelope_of(), NOW)
    assert isinstance(arrived, Arrived)
    assert bytes(arrived.opened.payload) == b"hello"
    assert link.receive(encode_frame(Answer(1, "duplicate")), NOW) == Answer(1, "duplicate")
    assert link.receive(encode_frame(Topics(("news",))), NOW) == TopicsTold(("news",))
    assert link.met is not None
    assert link.met.topics == ("news",)
    assert link.receive(KEEPALIVE, NOW) == Alive()
    assert link.receive(encode_frame(Statements((REVOKED_CAROL,))), NOW) == Learned(new=True)
    assert link.receive(encode_frame(Statements((REVOKED_CAROL,))), NOW) == Learned(new=False)


def test_topics_on_which_the_peer_may_not_listen_are_left_out() -> None:
    link = bobs_link()
    told = link.receive(hello(topics=("alerts", "news"), caveats=Caveats(topics=("news",))), NOW)
    assert isinstance(told, Met)
    assert told.hello.topics == ("news",)
    assert link.receive(encode_frame(Topics(("alerts",))), NOW) == TopicsTold(())


def test_the_news_of_a_revocation_counts_before_the_chain_is_judged() -> None:
    with pytest.raises(Revoked):
        bobs_link().receive(hello(statements=(REVOKED_ADA,)), NOW)
    assert bobs_link().receive(hello(statements=(REVOKED_CAROL,)), NOW) == Met(
        Hello(b"i" * 16, 1, chain_of(ADA).encode(), (), (REVOKED_CAROL,)), learned=True
    )


def test_a_statement_that_the_user_did_not_sign_ends_the_link() -> None:
    with pytest.raises(StatementInvalid):
        met().receive(encode_frame(Statements((REVOKED_CAROL[:-1] + b"\0",))), NOW)
    strangers = state(STRANGER, NOTHING_REVOKED, next_generation=True, now_ms=NOW).encode()
    with pytest.raises(OtherUser):
        met().receive(encode_frame(Statements((strangers,))), NOW)


def test_the_chain_is_that_of_the_key_that_holds_the_channel() -> None:
    link = Link(Trust(Identity(BOB, chain_of(BOB))), name_of(CAROL))
    with pytest.raises(ChainInvalid):
        link.receive(hello(), NOW)


def test_a_peer_that_is_this_agent_itself_is_refused() -> None:
    link = Link(Trust(Identity(ADA, chain_of(ADA))), ADA_NAME)
    with pytest.raises(LinkInvalid):
        link.receive(hello(), NOW)


def test_an_envelope_that_is_not_believed_is_answered_and_ends_nothing() -> None:
    link = met()
    refused = link.receive(envelope_of(sender=CAROL), NOW)
    assert isinstance(refused, Unacceptable)
    assert refused.sequence == 7
    assert isinstance(refused.error, EnvelopeInvalid)
    assert isinstance(link.receive(envelope_of(), NOW), Arrived)


def test_a_refusal_of_the_peer_is_told_before_a_hello_and_after() -> None:
    frame = encode_frame(Refusal("BUS_REVOKED", False))
    for link in (bobs_link(), met()):
        told = link.receive(frame, NOW)
        assert isinstance(told, Refused)
        assert isinstance(told.error, Revoked)
        assert told.error.details == {"peer": ADA_NAME.hex()}


def test_what_is_nobody_elses_business_is_told_as_busy() -> None:
    assert refusal_of(StoreFailed("a bug")) == Refusal(PeerBusy.code, True)
    assert refusal_of(Revoked("gone")) == Refusal("BUS_REVOKED", False)


def test_a_link_holds_no_authority_before_a_hello() -> None:
    with pytest.raises(LinkInvalid):
        bobs_link().authority(NOW)
    assert met().authority(NOW).agent == ADA_NAME


def test_an_identity_is_a_key_and_the_certificate_for_it() -> None:
    with pytest.raises(ChainInvalid):
        Trust(Identity(BOB, chain_of(ADA)))
