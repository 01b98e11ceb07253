"""Serving agents by the Model Context Protocol."""

from pathlib import Path


def serve(folder: Path | None, *, profile: str, start: bool) -> None:
    """Serves one agent on standard input and output until its program is gone."""
    from parley.mcp.wire_guard import take_wire

    wire = take_wire()  # before the SDK is loaded, so that nothing of it can print
    from parley.mcp.stdio import serve_stdio

    serve_stdio(wire, folder, profile=profile, start=start)
