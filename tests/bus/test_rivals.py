"""Which of two connections stays: the same on both sides, whatever happened in which order."""

from itertools import permutations

import pytest

from parley.bus.rivals import Rival, keeps_new

ADA_DIALS, BOB_TAKES, BOB_DIALS, ADA_TAKES = "ada dials", "bob takes", "bob dials", "ada takes"
ORDERS = [
    order
    for order in permutations((ADA_DIALS, BOB_TAKES, BOB_DIALS, ADA_TAKES))
    if order.index(ADA_DIALS) < order.index(BOB_TAKES) and order.index(BOB_DIALS) < order.index(ADA_TAKES)
]


def rivals(order: tuple[str, ...]) -> tuple[tuple[Rival, Rival], tuple[Rival, Rival]]:
    """The connection that Ada dialled and the one that Bob did, as each of the two sees them."""
    at = {event: number for number, event in enumerate(order)}
    adas = Rival(True, at[ADA_DIALS], at[BOB_TAKES], b"bob"), Rival(False, at[ADA_TAKES], at[BOB_DIALS], b"bob")
    bobs = Rival(False, at[BOB_TAKES], at[ADA_DIALS], b"ada"), Rival(True, at[BOB_DIALS], at[ADA_TAKES], b"ada")
    return adas, bobs


def kept(pair: tuple[Rival, Rival], *, new: int, we_are_smaller: bool) -> int:
    """0 if the connection that Ada dialled stays, 1 if it is Bob's; ``new`` is the one that was met second."""
    stays = keeps_new(pair[1 - new], pair[new], we_are_smaller=we_are_smaller)
    return new if stays else 1 - new


@pytest.mark.parametrize("ada_is_smaller", [True, False])
@pytest.mark.parametrize("order", ORDERS)
def test_both_sides_keep_the_same_in_whatever_order_they_meet(order: tuple[str, ...], ada_is_smaller: bool) -> None:
    adas, bobs = rivals(order)
    answers = {
        *(kept(adas, new=new, we_are_smaller=ada_is_smaller) for new in (0, 1)),
        *(kept(bobs, new=new, we_are_smaller=not ada_is_smaller) for new in (0, 1)),
    }
    assert len(answers) == 1
    if order.index(BOB_TAKES) < order.index(BOB_DIALS):
        assert answers == {1}  # Bob had lost Ada's
    elif order.index(ADA_TAKES) < order.index(ADA_DIALS):
        assert answers == {0}
    else:
        assert answers == {0 if ada_is_smaller else 1}


def test_a_peer_that_started_again_takes_the_place_of_its_old_connection() -> None:
    assert keeps_new(Rival(False, 1, 9, b"one"), Rival(False, 2, 1, b"two"), we_are_smaller=True)


def test_of_two_that_the_peer_dialled_the_later_one_stays() -> None:
    early, late = Rival(False, 2, 1, b"one"), Rival(False, 1, 2, b"one")
    assert keeps_new(early, late, we_are_smaller=True)
    assert not keeps_new(late, early, we_are_smaller=True)


def test_of_two_that_this_side_dialled_the_new_one_stays() -> None:
    assert keeps_new(Rival(True, 1, 1, b"one"), Rival(True, 2, 2, b"one"), we_are_smaller=True)
