"""``make docs``: writes the generated parts of the documents again, in place.

A part stands between ``<!-- generated:NAME -->`` and ``<!-- /generated -->``. Its text comes from the registry, the
table of endpoints, the wire structs, the command line's own help, or a file of ``examples/``, so no document can tell
of a code, a setting or a flag that the program does not have. ``--check`` changes nothing and exits with 1 if a part is
stale.
"""

import argparse
import ast
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from parley.cli.root import root as command_line
from parley.core import limits
from parley.core.metrics import MIB
from parley.core.registry import registry
from parley.core.setting_values import allowed_values
from parley.core.settings import BUILTIN_PLUGINS, table_specs
from parley.hub.http.table import ENDPOINTS
from parley.mcp.profiles import PROFILES, tools_of
from parley.pipeline.audit.checks import CHECKS
from parley.programs.catalogue import PROGRAMS, Place
from parley.wire.events import PAYLOADS
from scripts import docs_endpoints, docs_mesh
from scripts.doc_tables import close_code_table, code, default, errors, local_errors, table

ROOT = Path(__file__).parent.parent
PART = re.compile(r"(<!-- generated:(?P<name>\S+) -->\n).*?(<!-- /generated -->)", re.DOTALL)
HELP_WIDTH = 100


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated parts of the documents again.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a part is stale")
    check = parser.parse_args().check
    stale = [path for path in documents() if (text := path.read_text(encoding="utf-8")) != render(text)]
    for path in stale:
        print(f"{path.relative_to(ROOT)} {'is stale; run: make docs' if check else 'written'}", file=sys.stderr)
        if not check:
            path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 1 if check and stale else 0


def documents() -> list[Path]:
    """Every document of the project."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def render(text: str) -> str:
    """The document with each of its generated parts made anew. Raises ``KeyError`` for a part that nobody makes."""
    return PART.sub(lambda found: f"{found[1]}{part(found['name'])}\n{found[3]}", text)


def part(name: str) -> str:
    """The text of one part, by its name; ``file:PATH`` is a file of the project as a block of code."""
    kind, _, path = name.partition(":")
    return file_part(path) if kind == "file" else PARTS[kind]()


def file_part(path: str) -> str:
    source = (ROOT / path).read_text(encoding="utf-8").rstrip()
    return f"```{'python' if path.endswith('.py') else 'text'}\n{source}\n```"


def rooms() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    rows: list[tuple[str, str, str]] = []
    for line in contract["rooms"]:
        room, _, below = line.partition(":")
        module = ROOT / "src" / "parley" / room / "__init__.py"
        if module.exists():
            about = (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
            rows.append(
                (code(room), " ".join(about.replace("``", "`").split()), code(*below.split()) or "nothing of ours")
            )
    return table("room|what it is|may import, and what those may import", rows)


def payloads() -> str:
    return table("event|`event.payload`", ((code(name), code(kind.__name__)) for name, kind in PAYLOADS.items()))


def close_codes() -> str:
    return close_code_table(registry().close_codes)


def events() -> str:
    rows = (
        (code(each.name), each.meaning, each.entity, code(*sorted(each.scopes)) or "none", code(*each.fields))
        for each in registry().events
    )
    return table("event|when|entity|scopes|members of the payload", rows)


def limit_table(of_the_bus: bool = False) -> str:
    """The limits of the hub's protocol or those of the bus, with the reason that stands below each in its module."""
    statements = ast.parse(Path(limits.__file__).read_text(encoding="utf-8")).body
    rows: list[tuple[str, object, str]] = []
    for statement, following in zip(statements, [*statements[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if name.startswith("BUS_") != of_the_bus:
                continue
            reason = following.value if isinstance(following, ast.Expr) else None
            value = getattr(limits, name)
            shown = f"`{value}`" if isinstance(value, str) else f"{value:,}"
            rows.append((code(name), shown, str(reason.value) if isinstance(reason, ast.Constant) else ""))
    return table("limit|value|why", rows)


def settings() -> str:
    rows = ((code(each.name), default(each), allowed_values(each), each.meaning) for each in registry().settings)
    return table("key|default|allowed|meaning", rows)


def builtin_config() -> str:
    """What ``config`` of each built-in plugin may hold."""
    rows = (
        (code(name), code(each.key), default(each), each.meaning)
        for name, builtin in BUILTIN_PLUGINS.items()
        for each in table_specs("config", builtin.config)
    )
    return table("built-in|key of `config`|default|meaning", rows)


def metrics() -> str:
    rows = (
        (
            code(each.name),
            each.kind,
            code(*each.labels),
            each.meaning,
            _level(each.warn, each.kind, each.name, each.low_is_bad),
            _level(each.critical, each.kind, each.name, each.low_is_bad),
        )
        for each in registry().metrics
    )
    return table("metric|kind|labels|meaning|warn|critical", rows)


def exits() -> str:
    return table("exit code|meaning", ((int(each), each.meaning) for each in registry().exits))


def audit_checks() -> str:
    rows = ((code(each.id), each.severity, each.sentence, each.cause) for each in CHECKS.values())
    return table("check|if not|what holds|what most likely happened if not", rows)


def commands() -> str:
    """The help of every command, as the program prints it."""
    return "\n\n".join(f"## `{name}`\n\n```text\n{text.rstrip()}\n```" for name, text in command_helps())


def command_helps() -> Iterator[tuple[str, str]]:
    """Each command's full name with its help, the groups before what is in them."""
    yield from _helps(typer.main.get_command(command_line), "parley", None)


def _helps(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    context = typer.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=HELP_WIDTH,
        max_content_width=HELP_WIDTH,
        help_option_names=["-h", "--help"],
    )
    yield context.command_path, command.get_help(context)
    if hasattr(command, "list_commands"):
        for child in command.list_commands(context):
            yield from _helps(command.get_command(context, child), child, context)


def _level(level: float | None, kind: str, name: str, low_is_bad: bool) -> str:
    if level is None:
        return ""
    amount = f"{level // MIB:,.0f} MiB" if name.endswith("_bytes") else f"{level:.0%}" if level < 1 else f"{level:,.0f}"
    return f"{'≤' if low_is_bad else '≥'} {amount}{' a minute' if kind == 'counter' else ''}"


def mcp_tools() -> str:
    from scripts.mcp_tokens import definition, tokens

    rows = (
        (code(tool.name), tool.about, code(*_arguments(tool.schema)), tokens(definition(tool)))
        for tool in tools_of("default")
    )
    return table("tool|what it does|arguments|tokens at most", rows)


def mcp_costs() -> str:
    from scripts.mcp_tokens import cost

    rows = ((code(profile), *(f"{number:,}" for number in cost(profile))) for profile in PROFILES)
    return table("profile|tools|bytes of definitions|tokens at most", rows)


def mcp_results() -> str:
    from scripts.mcp_tokens import results, tokens

    rows = (
        (
            name,
            f"{tokens(result.text.encode()):,}",
            f"{tokens(json.dumps(result.data, separators=(',', ':')).encode()):,}",
        )
        for name, result in results()
    )
    return table("result|tokens at most, as text|as structured content", rows)


def _arguments(schema: dict[str, Any]) -> list[str]:
    return [name if name in schema.get("required", ()) else f"{name}?" for name in schema["properties"]]


def programs() -> str:
    """The files of each agent program, at both of its places."""
    rows: list[tuple[str, ...]] = []
    for program in PROGRAMS.values():
        for place in (Place("project", Path(), {}), Place("user", Path("~"), {})):
            rows += [
                (code(program.name), place.scope, code(str(file.path)), ", ".join(file.parts))
                for file in program.files(place)
            ]
    return table("program|scope|file|what of it is ours", rows)


def hook_moments() -> str:
    """What each program calls the moments at which it calls a hook."""
    hooked = [program for program in PROGRAMS.values() if program.moments]
    rows = (
        (
            code(program.name),
            *(code(program.moments[moment]) for moment in ("session-start", "after-tool", "before-stop")),
        )
        for program in hooked
    )
    return table("program|`session-start`|`after-tool`|`before-stop`", rows)


def lake_tables() -> str:
    """Every table of the lake with its columns, as its files have them."""
    from parley.pipeline.lake.catalogue import TABLES

    rows = (
        (code(each.view), each.meaning, ", ".join(f"`{column.name}` {_kind(column)}" for column in each.schema))
        for each in TABLES
    )
    return table("table|holds|columns", rows)


def _kind(column: Any) -> str:
    return "timestamp" if str(column.type).startswith("timestamp") else str(column.type)


def quarantine_reasons() -> str:
    from parley.pipeline.fold import REASONS

    return table("reason|an event is set aside when", ((code(reason), why) for reason, why in REASONS.items()))


PARTS: dict[str, Callable[[], str]] = {
    **docs_mesh.PARTS,
    "rooms": rooms,
    "endpoints": lambda: docs_endpoints.endpoints(ENDPOINTS),
    "parameters": lambda: docs_endpoints.parameters(ENDPOINTS),
    "bodies": lambda: docs_endpoints.bodies(ENDPOINTS),
    "answers": lambda: docs_endpoints.answers(ENDPOINTS),
    "payloads": payloads,
    "errors": errors,
    "local-errors": local_errors,
    "close-codes": close_codes,
    "events": events,
    "limits": limit_table,
    "bus-limits": lambda: limit_table(of_the_bus=True),
    "settings": settings,
    "builtin-config": builtin_config,
    "metrics": metrics,
    "exits": exits,
    "commands": commands,
    "audit-checks": audit_checks,
    "lake-tables": lake_tables,
    "quarantine-reasons": quarantine_reasons,
    "mcp-tools": mcp_tools,
    "mcp-costs": mcp_costs,
    "mcp-results": mcp_results,
    "programs": programs,
    "hook-moments": hook_moments,
}


if __name__ == "__main__":
    sys.exit(main())
