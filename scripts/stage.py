"""How the acts of ``make demo`` speak to whoever watches."""

import sys

BOLD, DIM, GREEN, RESET = ("\033[1m", "\033[2m", "\033[32m", "\033[0m") if sys.stdout.isatty() else ("", "", "", "")


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
