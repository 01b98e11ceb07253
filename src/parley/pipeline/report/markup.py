"""HTML that is safe by its type: text becomes markup only by being escaped.

Whatever is put into an element is escaped, unless it is ``Markup``, which only these functions make.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple, TypeAlias


class Markup(NamedTuple):
    """HTML that may stand in the page as it is."""

    html: str


Content: TypeAlias = "Markup | str | Iterable[Markup | str]"


def element(tag: str, content: Content = "", **attributes: str | None) -> Markup:
    """``element("p", "a < b", class_="note")``. ``data_x`` and ``aria_x`` become ``data-x`` and ``aria-x``."""
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{named}>{joined(content).html}</{tag}>")


def joined(content: Content) -> Markup:
    """The parts one after the other, text escaped."""
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(escape(content, quote=False))
    return Markup("".join(joined(each).html for each in content))


class Column(NamedTuple):
    """A column of a table: its head, and whether it holds numbers."""

    head: str
    is_number: bool = False


def table(caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Markup | str]], empty: str) -> Markup:
    """A table that scrolls by itself where it is too wide; a sentence where it would have no rows."""
    if not rows:
        return element("p", empty, class_="empty")
    heads = [element("th", each.head, scope="col", class_="number" if each.is_number else None) for each in columns]
    body = [element("tr", _cells(columns, row)) for row in rows]
    content = (
        element("caption", caption, class_="unseen"),
        element("thead", element("tr", heads)),
        element("tbody", body),
    )
    return element("div", element("table", content), class_="table", tabindex="0", role="region", aria_label=caption)


def section(anchor: str, title: str, content: Iterable[Markup], lead: str = "") -> Markup:
    """A part of the page under a heading of its own."""
    heading = [element("h2", title, id=f"{anchor}-title")]
    if lead:
        heading.append(element("p", lead, class_="lead"))
    return element("section", [*heading, *content], id=anchor, aria_labelledby=f"{anchor}-title")


def _cells(columns: Sequence[Column], row: Sequence[Markup | str]) -> list[Markup]:
    first, *others = zip(columns, row, strict=True)
    cells = [element("th", first[1], scope="row")]
    return cells + [element("td", value, class_="number" if each.is_number else None) for each, value in others]
