"""The service that keeps a broker running. What it serves, and how, stands in ``broker.toml`` in its folder.

A broker that nobody has joined prints an invite when it starts. Whoever may read the log of services need not be its
owner, so that is not kept: the creation token of the folder makes the first mesh.
"""

from pathlib import Path
from typing import Any, Final

from parley.app.broker import UpOptions, broker_folder, log_path
from parley.app.services import Service, install, uninstall
from parley.broker.options import POSTGRESQL, broker_options

_LIMITS: Final = ("TasksMax=512", "LimitNOFILE=65536")


def install_service(folder: Path | None, *, allow_ci: bool = False, start: bool = True) -> dict[str, Any]:
    """Writes the service's file and starts it. Raises ``ConfigInvalid`` for a mistake in the settings, before that."""
    place = broker_folder(folder)
    service = broker_service(place, broker_options(UpOptions(folder=place).settings(), place).store)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return install(service, allow_ci=allow_ci, start=start)


def uninstall_service(folder: Path | None) -> dict[str, Any]:
    """Stops the service and removes its file. What the broker holds stays."""
    return uninstall(broker_service(broker_folder(folder), ""))


def broker_service(folder: Path, store: str) -> Service:
    """The broker of this folder as a service; a file elsewhere may be written, too."""
    elsewhere = [] if not store or store.startswith(POSTGRESQL) else [Path(store).parent]
    return Service(
        name="broker",
        about="where the daemons of meshes meet",
        arguments=("broker", "up", "--folder", str(folder), "--log-file", str(log_path(folder))),
        writes=tuple(dict.fromkeys((folder, *elsewhere))),
        log=folder / "service.log",
        limits=_LIMITS,
        output_is_secret=True,
    )
