"""The root folder of a jail: made in memory, filled with read-only mounts of what is shown, and moved into.

There is no ``/proc``: what a command needs of it is little, and what it tells about a machine is much.
"""

import os
from typing import Final

from parley.sandbox import seccomp, system
from parley.sandbox.spec import APP, SCRATCH, Spec

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_STAGING: Final = "/proc"
"""Where the new root is put together: a folder that every Linux has. It hides what is there in this namespace alone."""
_SPARE_BYTES: Final = 1024 * 1024
"""Room in the root for folders and mount points."""
_PAGE_BYTES_MAX: Final = 65_536
"""A file takes whole pages, on some machines as large as this."""
_SCRATCH_FILES_MAX: Final = 4_096
_INERT: Final = system.MS_NOSUID | system.MS_NODEV | system.MS_NOEXEC
_READ_ONLY: Final = system.MOUNT_ATTR_RDONLY | system.MOUNT_ATTR_NOSUID


def enter(spec: Spec, uid: int, gid: int) -> None:
    """Makes the root and moves into it; ``/scratch`` belongs to the given user. Raises ``OSError``."""
    system.mount("none", "/", "", system.MS_REC | system.MS_PRIVATE)
    # All are taken before anything is mounted, which might hide one of them.
    shown = [(path, os.path.isdir(path), _restricted(path, system.MOUNT_ATTR_NODEV)) for path in spec["shown"]]
    devices = [(path, False, _restricted(path, system.MOUNT_ATTR_NOEXEC)) for path in DEVICES]
    size = _SPARE_BYTES + sum(len(content) + _PAGE_BYTES_MAX for content in spec["files"].values())
    system.mount("tmpfs", _STAGING, "tmpfs", _INERT, f"size={size},mode=755")
    os.chdir(_STAGING)
    os.umask(0o022)
    # First, while there is no link and no mount that could lead out of the root.
    os.mkdir(_here(APP))
    for name, content in spec["files"].items():
        _write(os.path.join(_here(APP), name), content)
    os.mkdir(_here(SCRATCH))
    options = f"size={spec['scratch_bytes']},nr_inodes={_SCRATCH_FILES_MAX},mode=700,uid={uid},gid={gid}"
    system.mount("tmpfs", _here(SCRATCH), "tmpfs", _INERT, options)
    for path, is_folder, mount in (*shown, *devices):
        _place(mount, _here(path), is_folder=is_folder)
    for link, target in spec["links"]:
        os.makedirs(os.path.dirname(_here(link)), exist_ok=True)
        os.symlink(target, _here(link))
    _move_in()


def _restricted(path: str, attribute: int) -> int:
    mount = system.clone_mount(path)
    system.restrict_mount(mount, _READ_ONLY | attribute)
    return mount


def _here(path: str) -> str:
    """The path in the root that is being made, which is the current folder."""
    return "." + path


def _place(mount: int, target: str, *, is_folder: bool) -> None:
    if is_folder:
        os.makedirs(target, exist_ok=True)
    else:
        _write(target, b"")
    system.place_mount(mount, target)
    os.close(mount)


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o444)
    with open(descriptor, "wb") as file:
        file.write(content)


def _move_in() -> None:
    seccomp.pivot_root(".", ".")
    system.unmount(".")  # what was the root lies over the new one until then
    os.chdir("/")
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    system.restrict_mount(root, _READ_ONLY, below=False)
    os.close(root)
