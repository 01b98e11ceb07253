"""Starting a server in a process of its own, and learning what became of it.

It reports through a pipe: it writes one JSON line, the announcement or the reason why it could not start, and closes
it. Its parent therefore neither polls nor guesses, and an end without a line is a failure too.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from parley.core.errors import ParleyError, StartupFailed
from parley.core.wire_errors import retold
from parley.core.writable import unusable

_LOG_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700


def detach(
    what: str, arguments: Sequence[str], log_path: Path, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Runs ``parley`` with the arguments in a session of its own; its announcement, or raises why there is none.

    What the process says goes to the log.
    """
    log = _open_log(log_path)
    read_end, write_end = os.pipe()
    # -P: a module that lies in the current folder, which may be anybody's, is not imported.
    argv = [sys.executable, "-P", "-m", "parley", *arguments, "--report-fd", str(write_end)]
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(write_end,),
            start_new_session=True,
            cwd="/",  # so that no folder is kept from being unmounted or removed
            env={**os.environ, **(environment or {})},
        )
    finally:
        os.close(write_end)
        os.close(log)
    with os.fdopen(read_end, encoding="utf-8") as pipe:
        line = pipe.readline()
    if not line:
        code = child.wait()
        raise StartupFailed(f"The {what} ended with code {code}; see {log_path}", exit_code=code)
    report = json.loads(line)
    if report["status"] != "running":
        child.wait()
        raise reported_error(report)
    child.returncode = 0  # it lives on by itself; the object must not complain that nobody waited for it
    return report


def reported_error(report: dict[str, Any]) -> ParleyError:
    """The error of the process that could not start, with its class and details."""
    return retold(
        report["error"],
        code=report["code"],
        status=500,
        details=report.get("details", {}),
        hint=report["hint"],  # classes that share a code differ in it
    )


def _open_log(path: Path) -> int:
    """A descriptor that takes what a detached process says. Raises what there is to say where it cannot be opened."""
    try:
        path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _LOG_MODE)
    except OSError as error:
        raise unusable(path, error) from error
