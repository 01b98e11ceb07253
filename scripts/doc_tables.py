"""Tables of the documents, and the words in them."""

from collections.abc import Iterable

from parley.core.registry import CloseCode, registry
from parley.core.settings import SettingSpec


def table(head: str, rows: Iterable[Iterable[object]]) -> str:
    """A table; ``head`` names its columns, separated by bars."""
    columns = head.split("|")
    lines = [head, "|".join("---" for _ in columns)]
    lines += ["|".join(str(cell).replace("|", "\\|") or " " for cell in row) for row in rows]
    return "\n".join(f"|{line}|" for line in lines)


def code(*names: object) -> str:
    return ", ".join(f"`{name}`" for name in names)


def sentence(docstring: str | None) -> str:
    return " ".join((docstring or "").split())


def default(spec: SettingSpec) -> str:
    if spec.default is None:
        return "required" if spec.required else "none"
    return _toml(spec.default)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[]`" if not value else f"`{list(value)}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def close_code_table(entries: Iterable[CloseCode]) -> str:
    rows = ((each.code, each.meaning, "yes" if each.reconnect else "no") for each in entries)
    return table("code|meaning|connect again", rows)


def errors(speaker: str = "hub") -> str:
    same_code = [kind for each in registry().errors for kind in each.__subclasses__() if kind.code == each.code]
    rows = (
        (code(each.code), each.status, "yes" if each.transient else "no", sentence(each.__doc__), each.hint)
        for each in sorted([*registry().errors, *same_code], key=lambda error: (error.status, error.code))
        if each.on_wire and each.spoken_by == speaker
    )
    return table("code|status|transient|what it means|what to do", rows)


def local_errors(speaker: str = "hub") -> str:
    rows = (
        (code(each.code), int(each.exit_code), sentence(each.__doc__), each.hint)
        for each in registry().errors
        if not each.on_wire and each.spoken_by == speaker
    )
    return table("code|exit code|what it means|what to do", rows)
