"""A block of ours at the end of a text, set off by a blank line, and taken out again with what set it off."""

from typing import Final

from parley.programs.json_file import Facts

TAIL: Final = "tail"
"""The fact that holds what was put between the text and the block."""


def newline_of(text: str) -> str:
    """The line end that the text uses."""
    return "\r\n" if "\r\n" in text else "\n"


def append(text: str, block: str, facts: Facts) -> str:
    """The text with the block at its end. The block uses plain line ends and gets those of the text."""
    newline = newline_of(text)
    between = "" if text.endswith(newline * 2) else newline if text.endswith(newline) else newline * 2
    facts[TAIL] = between
    return text + between + block.replace("\n", newline)


def cut(text: str, start: int, end: int, facts: Facts, *, recorded: bool) -> str:
    """The text without its part from start to end, and without what set that part off."""
    newline = newline_of(text)
    between = facts.get(TAIL) if recorded else None
    if between is None:
        between = newline if text[:start].endswith(newline * 2) else ""
    before, rest = text[:start].removesuffix(between), text[end:]
    if rest and before and not before.endswith("\n"):  # somebody wrote below our block since
        before += newline
    return before + rest
