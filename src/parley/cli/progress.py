"""How far long work is, told on stderr: a moving line at a terminal, a plain line every few seconds elsewhere.

Work is a sequence of stages. A stage may say how much of how much is done; one that cannot still shows that it runs.
"""

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

PLAIN_SECONDS: Final = 5.0
"""Between two lines where nobody can be shown a moving one."""


class Stage:
    """One stage of the work. Written by the thread that works, read by the one that shows."""

    def __init__(self, name: str, unit: str) -> None:
        self.name = name
        self.unit = unit
        self.done = 0
        self.total: int | None = None
        self.started = time.monotonic()

    def tell(self, done: int, total: int | None = None) -> None:
        """Says how much is done, of how much if that is known."""
        self.done, self.total = done, total

    def line(self) -> str:
        """What a plain line says."""
        seconds = time.monotonic() - self.started
        counted = f"{self.done:,}" + (f" of {self.total:,}" if self.total is not None else "")
        return f"{self.name}: " + (f"{counted} {self.unit}, " if self.unit else "") + f"{seconds:.0f} s"


class Progress:
    """Shows the stages of one command. Used with ``with``."""

    def __init__(self, *, color: bool = True) -> None:
        self._color = color
        self._current: Stage | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._live: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._live = self._rich()
            self._live.start()
        else:
            self._thread = threading.Thread(target=self._speak, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._live is not None:
            self._live.stop()
        if self._thread is not None:
            self._thread.join()

    @contextmanager
    def stage(self, name: str, unit: str = "") -> Generator[Stage]:
        """The next stage, or one within another; ``unit`` is what it counts, if it counts."""
        around, stage = self._current, Stage(name, unit)
        self._current = stage
        try:
            yield stage
        finally:
            self._current = around
            self._write(stage.line())

    def _write(self, line: str) -> None:
        if self._live is not None:
            self._live.console.print(line, highlight=False, markup=False)
        else:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    def _speak(self) -> None:
        while not self._ended.wait(PLAIN_SECONDS):
            stage = self._current
            if stage is not None:
                self._write(stage.line())

    def _rich(self) -> Any:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        spinner = Spinner("dots")

        def draw() -> Any:
            stage = self._current
            spinner.update(text=Text(stage.line() if stage is not None else ""))
            return spinner if stage is not None else Text("")

        console = Console(stderr=True, no_color=not self._color)
        return Live(get_renderable=draw, console=console, transient=True, refresh_per_second=8)
