"""Keeps what servers answered, by route and status, and gives it as a snapshot does."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from tests.compat.contract import Shape, members_of


class Recorder:
    """What was seen of one server. Refusals have one shape for each code, wherever they come from."""

    def __init__(self, maps: Iterable[str] = ()) -> None:
        self._maps = tuple(maps)
        self._answers: dict[str, dict[str, Shape]] = {}
        self._codes: defaultdict[str, set[str]] = defaultdict(set)
        self._refusals: dict[str, Shape] = {}
        self._asked: defaultdict[str, dict[str, Any]] = defaultdict(dict)

    def answer(self, route: str, status: int | str, body: Any) -> Any:
        """One answer of a route, which is returned."""
        statuses = self._answers.setdefault(route, {})
        statuses.setdefault(str(status), Shape(self._maps)).add(body)
        return body

    def refusal(self, route: str, status: int | str, body: Any, code: str) -> None:
        """One refusal of a route."""
        self._answers.setdefault(route, {})
        name = f"{status} {code}"
        self._codes[route].add(name)
        self._refusals.setdefault(name, Shape(self._maps)).add(body)

    def members(
        self, route: str, example: dict[str, Any], taken: Callable[[Any], bool], **choices: tuple[Any, ...]
    ) -> None:
        """What a route may be sent."""
        self._asked[route]["body"] = members_of(example, taken, **choices)

    def notes(self, route: str, **heeded: list[str]) -> None:
        """Which parameters and headers a route heeds."""
        self._asked[route].update({name: sorted(each) for name, each in heeded.items()})

    def contract(self) -> dict[str, Any]:
        """All of it, as plain values."""
        routes = {
            route: {
                "body": {},
                **self._asked[route],
                "answers": {status: shape.seen() for status, shape in statuses.items()},
                "refusals": sorted(self._codes[route]),
            }
            for route, statuses in self._answers.items()
        }
        return {"routes": routes, "refusals": {name: shape.seen() for name, shape in self._refusals.items()}}
