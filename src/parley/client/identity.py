"""Who am I: the name under which a program takes part in a workspace.

``PARLEY_AGENT`` names the agent, if a person has set it. Otherwise the name is made from the program and its session,
and kept in ``.parley/agents/``, one file for each session: the same session has the same name after every restart, and
two sessions have two names. What a session is, the program knows best and says; without its word it is
``PARLEY_SESSION``, else that of the nearest program above this process whose tools have announced one (``lineage``),
else the pane or terminal that the program runs in. Nothing here needs a hub. Registering may find
the name taken by another living session, and then ``keep_name`` replaces a name that was made up, never one that was
chosen.
"""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

import msgspec

from parley.client.lineage import Process, announced, announced_for, living
from parley.core import untrusted_json
from parley.core.agent_names import made_name
from parley.core.files import write_atomic
from parley.core.limits import AGENT_TEXT_CHARS_MAX
from parley.workspace.layout import Workspace

AGENT_VARIABLE: Final = "PARLEY_AGENT"
SESSION_VARIABLE: Final = "PARLEY_SESSION"
_TERMINALS: Final = ("TMUX_PANE", "STY", "ZELLIJ_PANE_ID", "WEZTERM_PANE", "KITTY_WINDOW_ID", "TERM_SESSION_ID")
"""What multiplexers and terminals call the place that a program runs in; the first that is set counts."""
_FOLDER_MODE: Final = 0o700


@dataclass(frozen=True, slots=True)
class Identity:
    """The name of an agent, and what makes it this one."""

    name: str
    program: str
    session: str
    chosen: bool
    """Whether a person has chosen the name."""
    file: Path | None
    """Where a name that was made up is kept."""


class _Kept(msgspec.Struct, frozen=True):
    name: str
    program: str
    session: str


def whoami(
    workspace: Workspace | None,
    *,
    program: str = "parley",
    session: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Identity:
    """The identity of this program in a workspace: the same again and again, until its session is another one."""
    environ = os.environ if environ is None else environ
    chosen = environ.get(AGENT_VARIABLE, "").strip()
    if chosen:
        # Whoever is given the name is that agent, in however many processes.
        return Identity(chosen, program, session or f"agent {chosen}", True, None)
    inherits = workspace is not None and session is None and not environ.get(SESSION_VARIABLE, "").strip()
    if inherits and (found := announced(cast("Workspace", workspace))) is not None:
        return Identity(found.name, found.program, found.session, False, None)
    session = (session or current_session(environ))[:AGENT_TEXT_CHARS_MAX]
    seed = f"{program}\0{session}"
    if workspace is None:
        return Identity(made_name(seed), program, session, False, None)
    file = workspace.agents / f"session-{hashlib.sha256(seed.encode()).hexdigest()[:16]}.json"
    with suppress(OSError, msgspec.MsgspecError):
        kept = untrusted_json.decode(file.read_bytes(), _Kept)
        return Identity(kept.name, program, session, False, file)
    return keep_name(Identity("", program, session, False, file), made_name(seed))


def keep_name(identity: Identity, name: str) -> Identity:
    """The identity under another name, which it has from now on. Where nothing can be written, it is made anew."""
    if identity.file is not None:
        with suppress(OSError):  # a read-only workspace; the same words are made from the same session
            identity.file.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            text = msgspec.json.encode(_Kept(name, identity.program, identity.session))
            write_atomic(identity.file, text + b"\n")
    return replace(identity, name=name)


def session_of_tools(workspace: Workspace, process: Process, environ: Mapping[str, str] | None = None) -> str:
    """The session of an agent's tools, by the process of its program: tools do not inherit, they are what makes it one.

    Tools that are started again go on as they were. Where another living program has the session that this one would
    have, as with two in one terminal, this one has a session of its own.
    """
    environ = os.environ if environ is None else environ
    session = current_session(environ)
    if environ.get(SESSION_VARIABLE, "").strip():
        return session
    before = announced_for(workspace, process)
    if before is not None:
        return before.session
    taken = any(other.session == session for other in living(workspace))
    return f"{session}, process {process.pid} of {process.began}" if taken else session


def current_session(environ: Mapping[str, str] | None = None) -> str:
    """What tells this session from another one on this machine, where the program does not say."""
    environ = os.environ if environ is None else environ
    told = environ.get(SESSION_VARIABLE, "").strip()
    if told:
        return told
    for variable in _TERMINALS:
        if environ.get(variable):
            return f"{variable} {environ[variable]}"
    return f"sid {os.getsid(0)}"
