"""Services of the user's own that keep a process of ours running: systemd on Linux, launchd on macOS.

A service calls this very interpreter, starts the process again when it fails, and does not when the start was refused
for a reason that another try cannot change: those exit codes are named, or the log would fill with one refusal.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from parley.core.errors import StartupFailed
from parley.core.exits import Exit
from parley.core.files import write_atomic

CI_VARIABLES: Final = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI", "JENKINS_URL")
REFUSALS: Final = tuple(int(code) for code in Exit if 10 <= code <= 29)
"""Exit codes after which another start cannot help, that of a process which runs already included."""


@dataclass(frozen=True)
class Service:
    """A process to keep running, and what it may use."""

    name: str
    """``daemon`` or ``broker``: what the service is called by."""
    about: str
    arguments: tuple[str, ...]
    """Of ``parley``."""
    writes: tuple[Path, ...]
    """The folders that it may write in, and no others."""
    log: Path
    """Where launchd puts what it prints."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: tuple[str, ...] = ()
    """Lines of a unit."""
    output_is_secret: bool = False
    """Whether what it prints, beside its log and its errors, is not to be kept."""

    @property
    def unit(self) -> str:
        return f"parley-{self.name}.service"

    @property
    def agent(self) -> str:
        return f"org.parley.{self.name}"

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-P", "-m", "parley", *self.arguments]


def in_ci() -> bool:
    """Whether this is a build machine, by what those put into the environment."""
    return any(os.environ.get(name, "").lower() not in ("", "0", "false") for name in CI_VARIABLES)


def install(service: Service, *, allow_ci: bool = False, start: bool = True) -> dict[str, Any]:
    """Writes the service's file and starts it. Raises ``StartupFailed`` in a build machine unless it is allowed."""
    if not allow_ci and in_ci():
        raise StartupFailed("This is a build machine, which forgets its services; say --allow-ci-persistent if not")
    path = service_path(service)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = launchd_agent(service) if sys.platform == "darwin" else systemd_unit(service)
    write_atomic(path, text.encode(), 0o644)
    commands = _start_commands(service, path) if start else []
    return {"path": str(path), "started": _run(commands), "commands": [" ".join(each) for each in commands]}


def uninstall(service: Service) -> dict[str, Any]:
    """Stops the service and removes its file. What it has kept stays."""
    path = service_path(service)
    was_there = path.exists()
    if was_there:
        _run(_stop_commands(service, path))
        path.unlink()
    return {"path": str(path), "removed": was_there}


def service_path(service: Service) -> Path:
    """Where the user's services are."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "LaunchAgents" / f"{service.agent}.plist"
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "systemd" / "user" / service.unit


def systemd_unit(service: Service) -> str:
    """The unit. The process may write in its own folders and nowhere else."""
    command = " ".join(_quoted(each).replace("$", "$$") for each in service.command)  # only commands know variables
    lines = [
        "[Unit]",
        f"Description=Parley {service.name}: {service.about}",
        "StartLimitIntervalSec=300",
        "StartLimitBurst=5",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={command}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in service.environment.items()),
        "Restart=on-failure",
        "RestartSec=5",
        f"RestartPreventExitStatus={' '.join(map(str, REFUSALS))}",
        *service.limits,
        *(["StandardOutput=null"] if service.output_is_secret else []),
        "NoNewPrivileges=yes",
        "PrivateTmp=yes",
        "ProtectSystem=strict",
        "ProtectHome=read-only",
        *(f"ReadWritePaths={_quoted(str(each))}" for each in service.writes),
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ]
    return "\n".join(lines)


def launchd_agent(service: Service) -> str:
    """The property list. launchd knows no codes to stay away for, so it is told to wait long between two starts."""
    arguments = "\n".join(f"    <string>{escape(each)}</string>" for each in service.command)
    environment = "".join(
        f"<key>{escape(name)}</key><string>{escape(value)}</string>" for name, value in service.environment.items()
    )
    log = escape(str(service.log))
    output = "/dev/null" if service.output_is_secret else log
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>{service.agent}</string>
  <key>ProgramArguments</key>
  <array>
{arguments}
  </array>
  <key>EnvironmentVariables</key>
  <dict>{environment}</dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ThrottleInterval</key><integer>300</integer>
  <key>StandardOutPath</key><string>{output}</string>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
"""


def _quoted(text: str) -> str:
    """A word of a unit file: what systemd would take for a specifier is doubled."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{inner}"'


def _start_commands(service: Service, path: Path) -> list[list[str]]:
    if sys.platform == "darwin":
        domain = f"gui/{os.getuid()}"
        return [["launchctl", "bootout", domain, str(path)], ["launchctl", "bootstrap", domain, str(path)]]
    return [["systemctl", "--user", "daemon-reload"], ["systemctl", "--user", "enable", "--now", service.unit]]


def _stop_commands(service: Service, path: Path) -> list[list[str]]:
    if sys.platform == "darwin":
        return [["launchctl", "bootout", f"gui/{os.getuid()}", str(path)]]
    return [["systemctl", "--user", "disable", "--now", service.unit]]


def _run(commands: list[list[str]]) -> bool:
    """Whether the last command succeeded; without a service manager there is nothing to run."""
    done = False
    for command in commands:
        if shutil.which(command[0]) is None:
            return False
        done = subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    return done
