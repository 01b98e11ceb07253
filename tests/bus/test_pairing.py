"""Pairing by hand: what each side shows when, what is confirmed, and somebody who stands in between."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.bus import pairing
from parley.bus.pairing import Attempt, Confirmed, Granted, Opened
from parley.core.bus_errors import BusError, OtherUser, PairingFailed
from parley.core.sealing import public_key
from tests.bus.agents import ADA, BOB, MALLORY, STRANGER, USER
from tests.bus.pairs import USER_SHOWN, asking, granted, letting_in, show


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(PairingFailed) as refusal:
        call()
    return str(refusal.value.details["reason"])


def confirmed() -> tuple[Attempt, Attempt, str]:
    """Two sides, on each of which the digits were confirmed; and the request."""
    ada, bob = asking(), letting_in()
    _, to_bob = show(ada, bob)
    ada.confirm(bob.code)
    bob.confirm(ada.code)
    assert to_bob.line is not None
    return ada, bob, to_bob.line


def test_both_sides_show_the_same_digits_and_a_grant_comes_of_it() -> None:
    ada, bob = asking(), letting_in()
    to_ada, to_bob = show(ada, bob)
    assert to_ada.user == USER_SHOWN
    assert to_bob.request is not None
    assert to_bob.line is not None
    assert to_bob.request.agent == public_key(ADA).hex()
    assert ada.code == bob.code
    assert len(ada.code) == 6
    ada.confirm(f"{bob.code[:3]} {bob.code[3:]}\n")
    assert bob.receive(ada.confirmation()) == Confirmed()
    assert not bob.may_issue
    bob.confirm(ada.code)
    assert bob.may_issue
    line = granted(to_bob.line)
    event = ada.receive(bob.granting(line))
    assert isinstance(event, Granted)
    assert event.grant.line() == line


def test_the_digits_depend_on_everything_that_is_shown() -> None:
    codes: set[str] = set()
    for ada, bob in [
        (asking(), letting_in()),
        (asking(BOB), letting_in()),
        (asking(nonce=b"c" * 32), letting_in()),
        (asking(), letting_in(STRANGER)),
        (asking(), letting_in(nonce=b"c" * 32)),
    ]:
        show(ada, bob)
        codes.add(ada.code)
    assert len(codes) == 5


def test_nothing_is_shown_to_whoever_has_not_committed() -> None:
    for each in (asking(), letting_in()):
        assert refused(each.opening) == "turn"
    ada, bob = asking(), letting_in()
    assert refused(lambda: bob.receive(b"\x02" + b"n" * 32 + b"shown")) == "turn"
    ada.receive(bob.commitment())
    assert refused(lambda: ada.receive(b"\x02" + b"b" * 32 + public_key(USER))) == "turn", "it opens before the host"


def test_nothing_is_shown_twice() -> None:
    ada, bob = asking(), letting_in()
    show(ada, bob)
    for each in (ada, bob):
        assert refused(each.opening) == "turn"


def test_what_is_shown_must_be_what_was_committed_to() -> None:
    ada, bob, other = asking(), letting_in(), asking(MALLORY)
    bob.receive(ada.commitment())
    other.receive(bob.commitment())
    assert refused(lambda: bob.receive(other.opening())) == "opening"


def test_a_commitment_that_is_sent_back_to_its_maker_cannot_be_opened() -> None:
    ada = asking()
    ada.receive(ada.commitment())
    assert refused(lambda: ada.receive(ada.opening())) == "opening"


@pytest.mark.parametrize("typed", ["", "000000", "12345", "no", "１２３４５６"])
def test_other_digits_confirm_nothing(typed: str) -> None:
    ada, bob = asking(), letting_in()
    show(ada, bob)
    assert refused(lambda: ada.confirm(typed)) == "digits"
    assert refused(ada.confirmation) == "turn"


def test_nothing_is_issued_unless_both_have_confirmed() -> None:
    for ada_does, bob_does in itertools.product([False, True], repeat=2):
        ada, bob = asking(), letting_in()
        _, to_bob = show(ada, bob)
        assert to_bob.line is not None
        line = granted(to_bob.line)
        if bob_does:
            bob.confirm(ada.code)
        if ada_does:
            ada.confirm(bob.code)
            bob.receive(ada.confirmation())
        if ada_does and bob_does:
            assert bob.granting(line)
        else:
            assert refused(lambda bob=bob, line=line: bob.granting(line)) == "turn"


def test_a_confirmation_that_was_not_signed_with_the_key_that_was_shown_is_none() -> None:
    _, bob, _ = confirmed()
    for forged in (bytes(64), asking_confirmation(MALLORY)):
        assert refused(lambda forged=forged: bob.receive(b"\x03" + forged)) == "forged"
    assert not bob.may_issue


def asking_confirmation(seed: bytes) -> bytes:
    ada, bob = asking(seed), letting_in()
    show(ada, bob)
    ada.confirm(ada.code)
    return ada.confirmation()[1:]


def test_a_grant_that_was_not_signed_for_this_pairing_is_none() -> None:
    """One of an earlier pairing is signed by the right user, for the right agent."""
    earlier, line = letting_in(nonce=b"e" * 32), granted(asking()._opening[32:].decode())
    before = asking(nonce=b"f" * 32)
    show(before, earlier)
    before.confirm(earlier.code)
    earlier.confirm(before.code)
    earlier.receive(before.confirmation())
    ada, _, _ = confirmed()
    assert refused(lambda: ada.receive(earlier.granting(line))) == "forged"
    assert isinstance(before.receive(earlier.granting(line)), Granted), "the control"


def test_a_grant_by_another_user_than_the_one_who_was_compared_is_none() -> None:
    ada, bob, line = confirmed()
    bob.receive(ada.confirmation())
    with pytest.raises(OtherUser):
        ada.receive(bob.granting(granted(line, STRANGER)))


def test_no_grant_is_taken_before_somebody_has_confirmed_here() -> None:
    ada, bob = asking(), letting_in()
    _, to_bob = show(ada, bob)
    twin = asking()
    twin.receive(bob.commitment())
    twin._opened, twin._has_opened = bob._opening, True
    twin.confirm(bob.code)
    bob.receive(twin.confirmation())
    bob.confirm(bob.code)
    assert to_bob.line is not None
    assert refused(lambda: ada.receive(bob.granting(granted(to_bob.line or "")))) == "turn"


@given(st.lists(st.binary(max_size=120), max_size=4))
def test_no_frames_raise_anything_else(frames: list[bytes]) -> None:
    for attempt in (asking(), letting_in(), *confirmed()[:2]):
        for frame in frames:
            try:
                attempt.receive(frame)
            except BusError:
                break


class Careless(Attempt):
    """A side that does not look whether what it is shown was committed to: the control."""

    def receive(self, frame: bytes) -> pairing.Event:
        if frame[:1] == b"\x02" and self._committed is not None:
            self._committed = pairing._commitment(self._other, frame[1:])
        return super().receive(frame)


def stand_between(kind: type[Attempt], number: int) -> bool:
    """Somebody who lets Ada in as the user whom she means, and is let in by Bob as Ada. Whether the digits are equal.

    Mallory does what she can: she hears Bob's opening before she has to open to Ada, and then looks for a nonce under
    which Ada shows what Bob shows.
    """
    nonce = number.to_bytes(32)
    ada = kind("asks", asking()._opening[32:], ADA, b"a" + nonce[1:])
    bob = kind("lets in", public_key(USER), USER, b"b" + nonce[1:])
    to_bob = asking(MALLORY, b"c" + nonce[1:])
    to_ada = letting_in(STRANGER, b"d" + nonce[1:])
    ada.receive(to_ada.commitment())
    to_ada.receive(ada.commitment())
    heard = ada.opening()
    to_ada.receive(heard)
    bob.receive(to_bob.commitment())
    to_bob.receive(bob.commitment())
    bob.receive(to_bob.opening())
    to_bob.receive(bob.opening())
    if kind is Careless:
        to_ada = next(each for each in tries(heard, ada) if each.code == bob.code)
    shown = to_ada.opening()
    assert isinstance(ada.receive(shown), Opened)
    return ada.code == bob.code


def tries(heard: bytes, ada: Attempt) -> Iterator[Attempt]:
    """Sides of Mallory's that have heard Ada, each with another nonce."""
    for number in itertools.count():
        made = letting_in(STRANGER, number.to_bytes(32))
        made.receive(ada.commitment())
        made.receive(heard)
        yield made


def test_somebody_in_between_is_lucky_as_often_as_chance_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two digits, of a thousand attempts about ten; with six, one of a million.

    So a pairing is one attempt (``test_pairing_on_sockets``): whoever could go on trying would be lucky in the end.
    """
    monkeypatch.setattr(pairing, "CODE_DIGITS", 2)
    lucky = sum(stand_between(Attempt, number) for number in range(1_000))
    assert 0 < lucky < 25


def test_the_commitments_are_what_stops_somebody_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: where nobody checks them, she is lucky each time."""
    monkeypatch.setattr(pairing, "CODE_DIGITS", 2)
    assert all(stand_between(Careless, number) for number in range(20))
