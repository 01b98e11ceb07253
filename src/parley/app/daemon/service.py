"""The service that keeps the user's daemon running."""

from typing import Any, Final

from parley.app.services import Service, install, uninstall
from parley.daemon.home import prepare_home
from parley.wire.daemon_home import HOME_VARIABLE, DaemonHome, daemon_home

_LIMITS: Final = ("TasksMax=128", "LimitNOFILE=4096", "MemoryMax=1G")


def install_service(*, allow_ci: bool = False, start: bool = True) -> dict[str, Any]:
    """Writes the service's file and starts it. Raises ``StartupFailed`` in a build machine unless it is allowed."""
    home = daemon_home()
    prepare_home(home)
    return install(daemon_service(home), allow_ci=allow_ci, start=start)


def uninstall_service() -> dict[str, Any]:
    """Stops the service and removes its file. What the daemon holds stays."""
    return uninstall(daemon_service(daemon_home()))


def daemon_service(home: DaemonHome) -> Service:
    """The daemon of this folder as a service."""
    return Service(
        name="daemon",
        about="messages between machines",
        arguments=("daemon", "up", "--foreground", "--persistent"),
        writes=(home.root,),
        log=home.logs / "service.log",
        environment={HOME_VARIABLE: str(home.root)},
        limits=_LIMITS,
    )
