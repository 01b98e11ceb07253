"""Serving agents by the Model Context Protocol: one on standard input and output, all of them as a guest of the hub."""

import asyncio
import gc
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from parley.core.errors import ParleyError
from parley.core.settings import Settings
from parley.wire.answers import error_body

if TYPE_CHECKING:
    from parley.mcp.http import HttpTools

PROFILES_BY_PATH: Final = {"/mcp": "default", "/mcp/full": "full"}
REFUSED: Final = -32050
"""Of the numbers that JSON-RPC leaves to servers, one that no SDK gives a meaning of its own."""


def serve(folder: Path | None, *, profile: str, program: str | None, start: bool) -> None:
    """Serves one agent on standard input and output until its program is gone."""
    from parley.mcp.wire_guard import take_wire

    wire = take_wire()  # before the SDK is loaded, so that nothing of it can print
    # Loading it makes much that stays and nothing to collect, and looking for that takes a sixth of the start.
    gc.disable()
    from parley.mcp.stdio import serve_stdio

    gc.freeze()
    gc.enable()
    serve_stdio(wire, folder, profile=profile, program=program, start=start)


class ToolsGuest:
    """The tools in a hub, loaded with the first request for them: a hub that nobody asks so does not carry the SDK."""

    paths = tuple(PROFILES_BY_PATH)

    def __init__(self, root: Path, settings: Settings) -> None:
        self._root = root
        self._settings = settings
        self._loading: asyncio.Task[HttpTools] | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answers one request."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        # Shielded: the first caller may go away, and the others wait for the same.
        tools = await asyncio.shield(self._loading)
        await tools(scope, receive, send)

    def refusal(self, error: ParleyError) -> dict[str, Any]:
        """As an error of JSON-RPC, which is all that a client of the protocol reads of a refusal."""
        words = f"{error.code}: {error}. {error.hint}".strip()
        said = {"code": REFUSED, "message": words, "data": error_body(error)}
        return {"jsonrpc": "2.0", "id": None, "error": said}

    async def aclose(self) -> None:
        """Ends what was begun."""
        if self._loading is not None:
            await (await self._loading).aclose()

    async def _load(self) -> "HttpTools":
        # On another thread, since it takes longer than any request may be held up.
        module = await asyncio.to_thread(importlib.import_module, "parley.mcp.http")
        tools: HttpTools = module.HttpTools(self._root, self._settings, PROFILES_BY_PATH)
        await tools.start()
        return tools
