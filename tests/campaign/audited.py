"""The audit of every workspace as a kill left it, by its own command.

Control: a copy of one of them with an event taken away, audited along with the others.
"""

import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from parley.core.exits import Exit
from tests.campaign.report import Report

TIMEOUT_SECONDS = 3600.0
CONTROL = "control"


Audit = Callable[[Path], tuple[int, Any]]
"""Audits the workspaces in a folder by the command. Returns how it ended, and what it said."""


def audit_left(left: Path, *, seed: int, audit: Audit | None = None) -> Report:
    """Audits the workspaces in a folder, by a process of its own unless told otherwise."""
    report = Report("audit", seed)
    places = sorted(left.iterdir())
    if not places:
        report.violations.append("nothing was left behind to audit: let kill or derived run before")
        return report
    control = _damaged(places[0], left / CONTROL)
    exit_code, said = (audit or _by_process)(left)
    if exit_code != Exit.DAMAGE:
        report.violations.append(f"the audit ended with {exit_code}: {said}")
        return report
    report.runs = len(places)
    report.facts = {"events": sum(hub["events"] for hub in said["hubs"])}
    for check in said["checks"]:
        for found in check["findings"] if check["verdict"] == "error" else ():
            told = report.control if found["db_id"] == control else report.violations
            told.append(f"{check['name']}: {found['explanation']}")
    return report


def command(left: Path) -> list[str]:
    """The command's words."""
    return ["pipeline", "audit", "--json", "--workspace", f"{left}/*"]


def _by_process(left: Path) -> tuple[int, Any]:
    argv = [sys.executable, "-m", "parley", *command(left)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, done.stdout + done.stderr


def _damaged(place: Path, target: Path) -> str:
    """A copy that lacks an event of its log; the id of its database."""
    shutil.copytree(place, target)
    db_id = str(uuid.uuid4())
    connection = apsw.Connection(str(target / ".parley" / "db.sqlite3"))
    try:
        connection.execute("DROP TRIGGER prevent_event_delete")
        connection.execute("UPDATE meta SET value = ? WHERE key = 'db_id'", (db_id,))
        connection.execute("DELETE FROM events WHERE event_id = 2")
    finally:
        connection.close()
    return db_id
