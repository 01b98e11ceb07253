"""How each agent program calls a hook, and how it wants to be answered.

A program hands a hook one JSON object on standard input. Exit code 0 with nothing on standard output means that the
hook has nothing to say; with a JSON object, that the agent is to be told something. That object differs:

- Claude Code and Codex take ``hookSpecificOutput.additionalContext`` at the start and after a tool. Before they stop,
  ``decision: block`` lets the agent go on with ``reason``; ``stop_hook_active`` says that it goes on for that already.
- Gemini CLI has the same members; its word before it stops is ``deny``.
- Cursor takes ``additional_context``, and before it stops ``followup_message``; ``loop_count`` counts those.

Only the standard library is loaded here: programs wait for hooks, after each tool.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

MOMENTS: Final = ("session-start", "after-tool", "before-stop")
_INBOX: Final = re.compile(r"parley.*[_:./-](?:inbox|wait)\Z", re.IGNORECASE)


class Called(NamedTuple):
    """What a program said when it called."""

    session: str
    folder: Path | None
    is_silent: bool
    """Whether the agent must not be told anything now, whatever is new."""
    has_just_looked: bool
    """Whether the agent itself has asked for what is new just now."""


def read_call(program: str, moment: str, payload: Mapping[str, Any]) -> Called:
    """What of a program's words matters here. A member of another type than documented counts as missing."""
    session = _text(payload, "session_id") or _text(payload, "conversation_id")
    roots = payload.get("workspace_roots")
    root = next((each for each in cast("list[Any]", roots) if isinstance(each, str)), "") if _is_list(roots) else ""
    folder = _text(payload, "cwd") or root
    return Called(
        session,
        Path(folder) if folder else None,
        _goes_on_already(moment, payload) or _is_somebody_elses(program, payload),
        moment == "after-tool" and _looked(payload),
    )


def render_answer(program: str, moment: str, event: str, line: str) -> dict[str, Any]:
    """The object that makes this program tell its agent this line. ``event`` is what it calls the moment."""
    return _ANSWERS[program](moment, event, line)


def _claude(moment: str, event: str, line: str) -> dict[str, Any]:
    if moment == "before-stop":
        return {"decision": "block", "reason": line}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": line}}


def _gemini(moment: str, event: str, line: str) -> dict[str, Any]:
    if moment == "before-stop":
        return {"decision": "deny", "reason": line}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": line}}


def _cursor(moment: str, _event: str, line: str) -> dict[str, Any]:
    return {"followup_message" if moment == "before-stop" else "additional_context": line}


_ANSWERS: Final[Mapping[str, Callable[[str, str, str], dict[str, Any]]]] = {
    "claude-code": _claude,
    "codex": _claude,
    "cursor": _cursor,
    "gemini": _gemini,
}


def _goes_on_already(moment: str, payload: Mapping[str, Any]) -> bool:
    """Whether the agent was kept from stopping before in this turn, or was stopped by its user: then it may stop."""
    if moment != "before-stop":
        return False
    count = payload.get("loop_count")
    return (
        payload.get("stop_hook_active") is True
        or (isinstance(count, int) and count > 0)
        or payload.get("status") in ("aborted", "error")
    )


def _is_somebody_elses(program: str, payload: Mapping[str, Any]) -> bool:
    """Whether another one is to be told: the main agent, not its helper; Cursor by its own hooks, not by those of
    Claude Code, which it reads too."""
    return bool(payload.get("agent_id")) or (program != "cursor" and "cursor_version" in payload)


def _looked(payload: Mapping[str, Any]) -> bool:
    asked = payload.get("tool_input")
    somewhere = isinstance(asked, dict) and any(cast("dict[str, Any]", asked).get(key) for key in ("channel", "topic"))
    return _INBOX.search(_text(payload, "tool_name")) is not None and not somewhere


def _text(payload: Mapping[str, Any], key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
