"""How the acts of ``make demo`` speak to whoever watches, and leave the stage when they are told to."""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

BOLD, DIM, GREEN, RESET = ("\033[1m", "\033[2m", "\033[32m", "\033[0m") if sys.stdout.isatty() else ("", "", "", "")

ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def end_on_signals() -> None:
    """Whoever ends the demo ends it as an error would: what was started is stopped on the way out."""
    for number in ENDINGS:
        signal.signal(number, lambda number, frame: sys.exit(128 + number))


@contextmanager
def undisturbed() -> Generator[None]:
    """Lets what starts or stops here do so, and be known. A signal that comes meanwhile ends the demo after it."""
    came: list[int] = []
    before = [(number, signal.signal(number, lambda number, frame: came.append(number))) for number in ENDINGS]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    if came:
        sys.exit(128 + came[0])


def scene(title: str) -> None:
    """Announces what happens next."""
    print(f"\n{BOLD}== {title}{RESET}", flush=True)


def say(text: str) -> None:
    """Tells something."""
    print(text, flush=True)


def show_command(arguments: tuple[str, ...]) -> None:
    """Shows a command as a person would type it."""
    shown = " ".join(f'"{word}"' if " " in word else word for word in arguments)
    print(f"{GREEN}$ parley {shown}{RESET}", flush=True)
