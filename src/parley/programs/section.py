"""A section of ours in a Markdown file, between two markers."""

from dataclasses import dataclass
from typing import Final

from parley.programs import tail
from parley.programs.json_file import BOM, Facts

BEGIN: Final = "<!-- parley:begin -->"
END: Final = "<!-- parley:end -->"


class NotASection(ValueError):
    """The markers do not come in one pair."""


@dataclass(frozen=True, slots=True)
class SectionFile:
    """A file with a section of ours. ``preamble`` begins a file that is made for it."""

    body: str
    preamble: str = ""

    def install(self, text: str | None, facts: Facts) -> str:
        """The text with our section as it should be. Raises ``NotASection``."""
        block = f"{BEGIN}\n{self.body.strip()}\n{END}\n"
        if text is None or not text.removeprefix(BOM).strip():
            facts[""] = text
            return (BOM if text and text.startswith(BOM) else "") + self.preamble + block
        place = _place(text)
        if place is None:
            return tail.append(text, block, facts)
        start, end = place
        written = block.replace("\n", tail.newline_of(text)).rstrip()
        return text if text[start:end].rstrip() == written else text[:start] + written + text[end:]

    def remove(self, text: str, facts: Facts, *, recorded: bool) -> str | None:
        """The text without our section; None when the file goes with it. Raises ``NotASection``."""
        place = _place(text)
        if place is None:
            return text
        start, end = place
        newline = tail.newline_of(text)
        end += len(newline) if text.startswith(newline, end) else 0
        rest = tail.cut(text, start, end, facts, recorded=recorded)
        if rest.removeprefix(BOM).strip() in ("", self.preamble.strip()) and ("" in facts or not recorded):
            return facts.get("")
        return rest


def _place(text: str) -> tuple[int, int] | None:
    begins, ends = text.count(BEGIN), text.count(END)
    if begins == ends == 0:
        return None
    start, end = text.find(BEGIN), text.find(END)
    if begins != 1 or ends != 1 or end < start:
        raise NotASection(f"the markers {BEGIN} and {END} do not come in one pair")
    return start, end + len(END)
