"""Hubs for the tests that answer at an address."""

import asyncio
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parley.pipeline.hubs import TOKEN_VARIABLE
from tests.hub.hubs import serve_hub


@contextmanager
def served(folder: Path, tables: Any = None) -> Generator[str]:
    """The address of a hub that serves the folder from another thread, and its token in the environment."""
    ready, stop = threading.Event(), threading.Event()
    said: dict[str, str] = {}

    async def serve() -> None:
        async with serve_hub(folder, tables) as opened:
            said.update(url=opened.url, token=opened.token)
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        os.environ[TOKEN_VARIABLE] = said["token"]
        yield said["url"]
    finally:
        os.environ.pop(TOKEN_VARIABLE, None)
        stop.set()
        thread.join()
