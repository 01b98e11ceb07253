"""A private PostgreSQL for tests and benchmarks: made in a temporary folder, on a socket of its own, gone at the end.

PostgreSQL does not run as root, so as root it is run as ``nobody``.
"""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

UNPRIVILEGED = "nobody"
START_SECONDS = 60


class Server:
    """A running server. Empty places in it are made as they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def url(self) -> str:
        return f"postgresql://parley@/postgres?host={self.folder}"

    def new_url(self) -> str:
        """The address of an empty schema, which is much quicker to make than a database."""
        name = f"t_{secrets.token_hex(8)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[call-overload]
        return f"{self.url}&options=-csearch_path%3D{name}"


@contextmanager
def private_server(*, durable: bool = False) -> Iterator[Server]:
    """Starts a server and stops it. Without ``durable`` it syncs nothing, which is enough for all but measurements."""
    folder = Path(tempfile.mkdtemp(prefix="parley-pg-"))
    user = pwd.getpwnam(UNPRIVILEGED) if os.getuid() == 0 else None
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user is not None else {}
    data = folder / "data"
    settings = ["listen_addresses=''", f"unix_socket_directories={folder}", "max_connections=100"]
    if not durable:
        settings += ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]

    def run(*command: str | Path) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder, **as_user)  # type: ignore[call-overload]

    try:
        run("initdb", "-D", data, "-U", "parley", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        options = " ".join(f"-c {setting}" for setting in settings)
        control = ("pg_ctl", "-D", data, "-w", "-t", str(START_SECONDS))
        run(*control, "-l", folder / "log", "-o", options, "start")
        try:
            yield Server(folder)
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
