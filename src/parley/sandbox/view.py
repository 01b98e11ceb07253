"""Which part of the machine's files a jail shows: the interpreter, its libraries, and what the policy names.

Every path is followed link by link. Real files and folders are shown where they are, and each link on the way is made
again, so a path that works outside works inside; nothing beside it becomes visible. The folders in between exist in
there, but hold nothing else.
"""

import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import parley
from parley.sandbox.policy import JailError, Policy
from parley.sandbox.spec import APP, SCRATCH

_OWN: Final = (Path(APP), Path(SCRATCH), Path("/dev"))
"""Folders that a jail makes itself."""
_LIBRARIES: Final = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo",
)  # fmt: skip
_FOR_NETWORK: Final = (
    "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services",
    "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
    "/usr/share/ca-certificates",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class View:
    """What is shown, in paths without links; and the links, with where they lead."""

    shown: tuple[Path, ...]
    links: tuple[tuple[Path, Path], ...]


def make_view(policy: Policy) -> View:
    """The view of a policy. ``JailError``: it would show what it must not, or cover the jail's own folders."""
    for path in policy.readable:
        if not path.is_absolute() or not path.exists():
            raise JailError("unavailable", f"The sandbox cannot show {path}: there is no such file or folder")
    network = [Path(path) for path in _FOR_NETWORK] if policy.network else []
    view = follow([*interpreter_paths(), *network, *policy.readable])
    for shown in view.shown:
        for own in _OWN:
            if own.is_relative_to(shown):
                raise JailError("unavailable", f"The sandbox cannot show {shown}: it has a folder {own} of its own")
        for hidden in policy.hidden:
            if hidden.resolve().is_relative_to(shown):
                raise JailError("unavailable", f"The sandbox would show {hidden}, which lies under {shown}")
    return view


def python_command(module: str) -> list[str]:
    """A command that runs a module as ``python -m`` does, in a jail: isolated, and without the start-up files of
    ``site-packages``, which may run code and name folders that are not shown."""
    folders = dict.fromkeys(str(folder) for folder in (*_site_folders(), package_folder().parent))
    code = f"import sys; sys.path += {list(folders)!r}; import runpy; runpy.run_module({module!r}, "
    return [str(interpreter()), "-I", "-S", "-c", code + "run_name='__main__', alter_sys=True)"]


def interpreter() -> Path:
    """The program that runs Python, without the links that a virtual environment puts before it."""
    return Path(sys.executable).resolve()


def package_folder() -> Path:
    """Where this package is."""
    return Path(parley.__file__).parent


@cache
def interpreter_paths() -> tuple[Path, ...]:
    """Everything that Python needs: the program under both of its names, the standard library, what is installed beside
    it, the package itself and nothing else of the folder that it is in, and the machine's libraries."""
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    standard = [Path(sysconfig.get_path(name, vars=base)) for name in ("stdlib", "platstdlib")]
    program = [Path(sys.executable), interpreter(), Path(sys.prefix, "pyvenv.cfg"), Path(sys.base_exec_prefix, "lib")]
    libraries = [Path(path) for path in _LIBRARIES]
    return (*program, *standard, *_site_folders(), package_folder(), *libraries)


def follow(paths: Iterable[Path]) -> View:
    """The real files and folders behind ``paths``, those that exist, and the links on the way to them."""
    links: dict[Path, Path] = {}
    real = dict.fromkeys(_walk(path, links) for path in paths if path.exists())
    shown = tuple(path for path in real if not any(parent in real for parent in path.parents))
    wanted = [(link, target) for link, target in links.items() if not any(link.is_relative_to(top) for top in shown)]
    return View(shown, tuple(wanted))


def _walk(path: Path, links: dict[Path, Path]) -> Path:
    """Follows one path to what it names, and notes each link with the real place that it leads to."""
    here = Path(path.anchor)
    for part in path.parts[1:]:
        here = here.parent if part == ".." else here / part
        if here.is_symlink():
            links[here] = here = here.resolve()
    return here


def _site_folders() -> list[Path]:
    """Where installed packages are, in the order in which they are looked for."""
    return [folder for folder in map(Path, sys.path) if folder.name in ("site-packages", "dist-packages")]
