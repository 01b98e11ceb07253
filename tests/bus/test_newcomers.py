"""Who crowds is crowded out, and everybody else finds the door open."""

from collections import Counter

from parley.bus.newcomers import ConnectionBounds, Doors, Newcomer

FEW = ConnectionBounds(newcomers_max=4, connections_max=4, connections_per_address_max=2)


class Crowd:
    """Newcomers at one pair of doors, and who was ended."""

    def __init__(self) -> None:
        self.doors = Doors(FEW)
        self.ended: list[str] = []

    def come(self, name: str, host: str) -> Newcomer:
        newcomer = Newcomer(host, lambda: self.ended.append(name))
        self.doors.arrive(newcomer)
        return newcomer


def test_one_more_ends_the_oldest_of_the_address_that_has_the_most() -> None:
    crowd = Crowd()
    crowd.come("polite", "10.0.0.1")
    for number in range(10):
        crowd.come(f"flood {number}", "10.0.0.2")
    assert crowd.ended == [f"flood {number}" for number in range(7)]


def test_where_all_come_from_one_address_the_oldest_gives_way() -> None:
    crowd = Crowd()
    for number in range(6):
        crowd.come(str(number), "10.0.0.1")
    assert crowd.ended == ["0", "1"]


def test_who_has_departed_counts_no_more() -> None:
    crowd = Crowd()
    for number in range(20):
        crowd.doors.depart(crowd.come(str(number), "10.0.0.1"))
    assert crowd.ended == []


def test_connections_of_one_address_are_bounded_and_leave_room_for_another() -> None:
    doors = Doors(FEW)
    taken = Counter(host for host in ["a", "a", "a", "b"] if doors.enter(host))
    assert taken == {"a": 2, "b": 1}
    doors.leave("a")
    assert doors.enter("a")


def test_connections_are_bounded_in_all() -> None:
    doors = Doors(FEW)
    assert [doors.enter(host) for host in "aabbc"] == [True, True, True, True, False]
    doors.leave("b")
    assert doors.enter("c")


def test_all_that_are_on_their_way_can_be_ended() -> None:
    crowd = Crowd()
    crowd.come("one", "a")
    crowd.come("other", "b")
    crowd.doors.end_newcomers()
    assert crowd.ended == ["one", "other"]
