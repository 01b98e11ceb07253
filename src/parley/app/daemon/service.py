"""A service of the user's own that keeps the daemon running: systemd on Linux, launchd on macOS.

The service calls this very interpreter, starts the daemon again when it fails, and does not when the start was refused
for a reason that another try cannot change: those exit codes are named, or the log would fill with one refusal.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from parley.core.errors import StartupFailed
from parley.core.exits import Exit
from parley.core.files import write_atomic
from parley.daemon.home import prepare_home
from parley.wire.daemon_home import HOME_VARIABLE, DaemonHome, daemon_home

UNIT_NAME: Final = "parley-daemon.service"
AGENT_NAME: Final = "org.parley.daemon"
CI_VARIABLES: Final = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI", "JENKINS_URL")
REFUSALS: Final = tuple(int(code) for code in Exit if 10 <= code <= 29)
"""Exit codes after which another start cannot help, that of a daemon which runs already included."""


def install_service(*, allow_ci: bool = False, start: bool = True) -> dict[str, Any]:
    """Writes the service's file and starts it. Raises ``StartupFailed`` in a build machine unless it is allowed."""
    if not allow_ci and any(os.environ.get(name) for name in CI_VARIABLES):
        raise StartupFailed("This is a build machine, which forgets its services; say --allow-ci-persistent if not")
    home = daemon_home()
    prepare_home(home)
    path = service_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    text = launchd_agent(home) if sys.platform == "darwin" else systemd_unit(home)
    write_atomic(path, text.encode(), 0o644)
    commands = _start_commands(path) if start else []
    return {"path": str(path), "started": _run(commands), "commands": [" ".join(each) for each in commands]}


def uninstall_service() -> dict[str, Any]:
    """Stops the service and removes its file. What the daemon holds stays."""
    path = service_path()
    was_there = path.exists()
    if was_there:
        _run(_stop_commands(path))
        path.unlink()
    return {"path": str(path), "removed": was_there}


def service_path() -> Path:
    """Where the user's services are."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "LaunchAgents" / f"{AGENT_NAME}.plist"
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "systemd" / "user" / UNIT_NAME


def systemd_unit(home: DaemonHome) -> str:
    """The unit. The daemon may write in its own folder and nowhere else."""
    command = " ".join(_quoted(each).replace("$", "$$") for each in _command())  # only commands know variables
    return f"""[Unit]
Description=Parley daemon: messages between machines
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=exec
ExecStart={command}
Environment={_quoted(f"{HOME_VARIABLE}={home.root}")}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus={" ".join(map(str, REFUSALS))}
TasksMax=128
LimitNOFILE=4096
MemoryMax=1G
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={_quoted(str(home.root))}

[Install]
WantedBy=default.target
"""


def launchd_agent(home: DaemonHome) -> str:
    """The property list. launchd knows no codes to stay away for, so it is told to wait long between two starts."""
    arguments = "\n".join(f"    <string>{escape(each)}</string>" for each in _command())
    log = escape(str(home.logs / "service.log"))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>{AGENT_NAME}</string>
  <key>ProgramArguments</key>
  <array>
{arguments}
  </array>
  <key>EnvironmentVariables</key>
  <dict><key>{HOME_VARIABLE}</key><string>{escape(str(home.root))}</string></dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ThrottleInterval</key><integer>300</integer>
  <key>StandardOutPath</key><string>{log}</string>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
"""


def _command() -> list[str]:
    return [sys.executable, "-P", "-m", "parley", "daemon", "up", "--foreground"]


def _quoted(text: str) -> str:
    """A word of a unit file: what systemd would take for a specifier is doubled."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{inner}"'


def _start_commands(path: Path) -> list[list[str]]:
    if sys.platform == "darwin":
        domain = f"gui/{os.getuid()}"
        return [["launchctl", "bootout", domain, str(path)], ["launchctl", "bootstrap", domain, str(path)]]
    return [["systemctl", "--user", "daemon-reload"], ["systemctl", "--user", "enable", "--now", UNIT_NAME]]


def _stop_commands(path: Path) -> list[list[str]]:
    if sys.platform == "darwin":
        return [["launchctl", "bootout", f"gui/{os.getuid()}", str(path)]]
    return [["systemctl", "--user", "disable", "--now", UNIT_NAME]]


def _run(commands: list[list[str]]) -> bool:
    """Whether the last command succeeded; without a service manager there is nothing to run."""
    done = False
    for command in commands:
        if shutil.which(command[0]) is None:
            return False
        done = subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    return done
