"""The files of the page, read once and served from memory.

A path in a request is looked up in an index of what is in the package's folder; none ever reaches the file system, so
there is nothing to climb out of.
"""

import functools
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final, NamedTuple

SHELL_NAME: Final = "index.html"
CONTENT_TYPES: Final[Mapping[str, bytes]] = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
"""What the page is made of. A file of another kind is not part of it, and not served."""


class Asset(NamedTuple):
    """One file, ready to be sent."""

    body: bytes
    content_type: bytes
    etag: bytes


@functools.cache
def page_assets() -> Mapping[str, Asset]:
    """Each file of the page by its path below the page's folder, with ``/`` between the parts."""
    return dict(_read(files("parley.hub") / "page", PurePosixPath()))


def _read(folder: Traversable, place: PurePosixPath) -> Iterator[tuple[str, Asset]]:
    for entry in folder.iterdir():
        path = place / entry.name
        if entry.is_dir():
            yield from _read(entry, path)
        elif path.suffix in CONTENT_TYPES:
            body = entry.read_bytes()
            etag = b'"%b"' % sha256(body).hexdigest()[:32].encode()
            yield str(path), Asset(body, CONTENT_TYPES[path.suffix], etag)
