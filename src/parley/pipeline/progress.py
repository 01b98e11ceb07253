"""How long work tells how far it is. Whoever shows it hands in something with these methods."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Stage(Protocol):
    """One stage of the work."""

    def tell(self, done: int, total: int | None = None) -> None:
        """Says how much is done, of how much if that is known."""
        ...


class Progress(Protocol):
    """Shows one stage after another."""

    def stage(self, name: str, unit: str = "") -> AbstractContextManager[Stage]:
        """The next stage; ``unit`` is what it counts, if it counts."""
        ...


class Silent:
    """Shows nothing."""

    def stage(self, name: str, unit: str = "") -> AbstractContextManager[Stage]:
        return nullcontext(self)

    def tell(self, done: int, total: int | None = None) -> None:
        pass
