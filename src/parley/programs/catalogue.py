"""Every agent program that can be set up: which files it reads, and what of Parley belongs in each.

A program is a function from a place (this project, or this user) to the files there. Formats and contracts are those
that the programs document; where a program has no such thing at a place (a primer file for all projects, say), the
list simply lacks it. Commands are written by name, so that a file that is committed works on every machine; an
absolute path is written only when it is asked for.
"""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from parley.programs.json_file import Entry, Facts, Item, JsonFile
from parley.programs.primer import CURSOR_PREAMBLE, PRIMER
from parley.programs.section import SectionFile
from parley.programs.toml_file import TomlFile

Scope = Literal["project", "user"]
Part = Literal["tools", "hooks", "primer"]
Moment = Literal["session-start", "after-tool", "before-stop"]

SERVER: Final = "parley"
"""The name of the MCP server in every program's config."""
HOOK_TIMEOUT_SECONDS: Final = 10
"""How long a program waits for a hook of ours. It gives up by itself long before that."""
_OURS: Final = re.compile(r"(?:\S*/)?parley hook (?:session-start|after-tool|before-stop)\b|'[^']*/parley' hook ")


class Place(NamedTuple):
    """Where a program is set up: the folder of the project, or the home of the user."""

    scope: Scope
    folder: Path
    environment: Mapping[str, str] = os.environ
    parley: str = "parley"
    """How the command is called: by its name, or by its path."""


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """One file of a program, and what of it is ours."""

    path: Path
    parts: tuple[Part, ...]
    edit: JsonFile | TomlFile | SectionFile


@dataclass(frozen=True, slots=True)
class Program:
    """An agent program."""

    name: str
    title: str
    files: Callable[[Place], list[ProgramFile]]
    moments: Mapping[Moment, str]
    """What the program calls the moments at which it runs a hook; empty if it has no hooks that are commands."""
    note: str = ""
    """What the user has to do in the program itself."""


def is_our_command(command: str) -> bool:
    """Whether a hook's command, as it stands in a file, runs ``parley hook``."""
    return _OURS.match(command.strip()) is not None


def hook_command(place: Place, program: str, moment: Moment) -> str:
    return f"{shlex.quote(place.parley)} hook {moment} --program {program}"


def tool_arguments(program: str) -> list[str]:
    """How a program starts its agent's tools; it is named as in its hooks, so that both are one agent."""
    return ["mcp", "--program", program]


def _claude_code(place: Place) -> list[ProgramFile]:
    home = Path(place.environment.get("CLAUDE_CONFIG_DIR") or place.folder / ".claude")
    if place.scope == "project":
        tools, settings, primer = ".mcp.json", ".claude/settings.json", "CLAUDE.md"
        paths = [place.folder / name for name in (tools, settings, primer)]
    else:
        own = "CLAUDE_CONFIG_DIR" in place.environment
        paths = [home / ".claude.json" if own else place.folder / ".claude.json"]
        paths += [home / "settings.json", home / "CLAUDE.md"]
    server = {"type": "stdio", "command": place.parley, "args": tool_arguments(CLAUDE_CODE)}
    hooks = JsonFile(is_our_command, items=_grouped(place, CLAUDE_CODE, HOOK_TIMEOUT_SECONDS))
    return [
        ProgramFile(paths[0], ("tools",), _server_file(("mcpServers", SERVER), server)),
        ProgramFile(paths[1], ("hooks",), hooks),
        ProgramFile(paths[2], ("primer",), SectionFile(PRIMER)),
    ]


def _codex(place: Place) -> list[ProgramFile]:
    home = Path(place.environment.get("CODEX_HOME") or place.folder / ".codex")
    config = place.folder / ".codex" if place.scope == "project" else home
    primer = place.folder / "AGENTS.md" if place.scope == "project" else home / "AGENTS.md"
    table = TomlFile(("mcp_servers", SERVER), {"command": place.parley, "args": tool_arguments(CODEX)})
    hooks = JsonFile(is_our_command, items=_grouped(place, CODEX, HOOK_TIMEOUT_SECONDS))
    return [
        ProgramFile(config / "config.toml", ("tools",), table),
        ProgramFile(config / "hooks.json", ("hooks",), hooks),
        ProgramFile(primer, ("primer",), SectionFile(PRIMER)),
    ]


def _cursor(place: Place) -> list[ProgramFile]:
    folder = place.folder / ".cursor"
    server = {"command": place.parley, "args": tool_arguments(CURSOR)}
    items = tuple(
        Item(("hooks", name), {"command": hook_command(place, CURSOR, moment), "timeout": HOOK_TIMEOUT_SECONDS})
        for moment, name in _CURSOR_MOMENTS.items()
    )
    files = [
        ProgramFile(folder / "mcp.json", ("tools",), _server_file(("mcpServers", SERVER), server)),
        ProgramFile(folder / "hooks.json", ("hooks",), JsonFile(is_our_command, items=items, base=(("version", 1),))),
    ]
    if place.scope == "project":  # rules for all projects are kept in Cursor's own settings, not in a file
        files.append(ProgramFile(folder / "rules/parley.mdc", ("primer",), SectionFile(PRIMER, CURSOR_PREAMBLE)))
    return files


def _gemini(place: Place) -> list[ProgramFile]:
    folder = place.folder / ".gemini"
    primer = place.folder / "GEMINI.md" if place.scope == "project" else folder / "GEMINI.md"
    settings = JsonFile(
        is_our_command,
        entries=(Entry(("mcpServers", SERVER), {"command": place.parley, "args": tool_arguments(GEMINI)}),),
        items=_grouped(place, GEMINI, HOOK_TIMEOUT_SECONDS * 1000, name=SERVER),  # it counts in milliseconds
    )
    return [
        ProgramFile(folder / "settings.json", ("tools", "hooks"), settings),
        ProgramFile(primer, ("primer",), SectionFile(PRIMER)),
    ]


def _opencode(place: Place) -> list[ProgramFile]:
    base = Path(place.environment.get("XDG_CONFIG_HOME") or place.folder / ".config")
    folder = place.folder if place.scope == "project" else base / "opencode"
    commented = folder / "opencode.jsonc"
    config = commented if commented.exists() else folder / "opencode.json"
    server = {"type": "local", "command": [place.parley, *tool_arguments(OPENCODE)]}
    return [
        ProgramFile(config, ("tools",), _server_file(("mcp", "servers", SERVER), server)),
        ProgramFile(folder / "AGENTS.md", ("primer",), SectionFile(PRIMER)),
    ]


def _server_file(path: tuple[str, ...], server: Mapping[str, Any]) -> JsonFile:
    return JsonFile(is_our_command, entries=(Entry(path, server),))


def _grouped(place: Place, program: str, timeout: int, **more: str) -> tuple[Item, ...]:
    """Hooks in the form in which an event has groups, and a group has commands."""
    return tuple(
        Item(
            ("hooks", name),
            {
                "hooks": [
                    {"type": "command", "command": hook_command(place, program, moment), "timeout": timeout, **more}
                ]
            },
        )
        for moment, name in PROGRAMS[program].moments.items()
    )


CLAUDE_CODE: Final = "claude-code"
CODEX: Final = "codex"
CURSOR: Final = "cursor"
GEMINI: Final = "gemini"
OPENCODE: Final = "opencode"
_CLAUDE_MOMENTS: Final[Mapping[Moment, str]] = {
    "session-start": "SessionStart",
    "after-tool": "PostToolUse",
    "before-stop": "Stop",
}
_CURSOR_MOMENTS: Final[Mapping[Moment, str]] = {
    "session-start": "sessionStart",
    "after-tool": "postToolUse",
    "before-stop": "stop",
}
_GEMINI_MOMENTS: Final[Mapping[Moment, str]] = {
    "session-start": "SessionStart",
    "after-tool": "AfterTool",
    "before-stop": "AfterAgent",
}

PROGRAMS: Final[Mapping[str, Program]] = {
    program.name: program
    for program in (
        Program(
            CLAUDE_CODE,
            "Claude Code",
            _claude_code,
            _CLAUDE_MOMENTS,
            "Claude Code asks once whether it may use a server that comes with the project.",
        ),
        Program(
            CODEX,
            "Codex",
            _codex,
            _CLAUDE_MOMENTS,
            "Codex reads .codex of a project that you trust, and runs new hooks after you reviewed them with /hooks.",
        ),
        Program(CURSOR, "Cursor", _cursor, _CURSOR_MOMENTS, "Cursor reads new hooks when it starts."),
        Program(GEMINI, "Gemini CLI", _gemini, _GEMINI_MOMENTS),
        Program(
            OPENCODE,
            "OpenCode",
            _opencode,
            {},
            "OpenCode has no hooks that are commands: its agents hear of what is new when they ask.",
        ),
    )
}

__all__ = ["PROGRAMS", "Facts", "Moment", "Part", "Place", "Program", "ProgramFile", "Scope", "is_our_command"]
