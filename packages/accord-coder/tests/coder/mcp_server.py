"""An MCP server for tests, made with the MCP library: `python mcp_server.py`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import EmbeddedResource, TextResourceContents, ToolAnnotations


def make_server() -> MCPServer:
    """Return a server with state of its own."""
    server = MCPServer("test")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True, title="Add numbers"))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def picture() -> Image:
        """Return an image."""
        return Image(data=b"\x89PNG", format="png")

    @server.tool()
    def document() -> EmbeddedResource:
        """Return a resource."""
        contents = TextResourceContents(uri="file:///notes.txt", text="the notes")
        return EmbeddedResource(resource=contents)

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ToolError("nothing works")

    @server.tool()
    async def slow(ctx: Context) -> str:
        """Report progress, then wait to be cancelled."""
        await ctx.report_progress(1, 4, "one of four")
        try:
            await asyncio.Event().wait()
        except BaseException:
            if path := os.environ.get("CANCELLED"):
                Path(path).write_text("cancelled")  # noqa: ASYNC240  # the end of it all
            raise
        return "never"

    @server.tool()
    async def grow(ctx: Context) -> str:
        """Add a tool while the server runs."""

        def grown() -> str:
            """Is added while the server runs."""
            return "grown"

        server.add_tool(grown)
        await ctx.session.send_tool_list_changed()  # for clients older than 2026-07-28
        await ctx.notify_tools_changed()  # for newer clients
        return "there is a tool `grown` now"

    @server.tool()
    def environment() -> str:
        """Return the names of the environment variables."""
        print("this is for nobody", file=sys.stderr)
        return " ".join(sorted(os.environ))

    @server.tool()
    def leave() -> str:
        """End the server immediately."""
        os._exit(3)

    return server


if __name__ == "__main__":
    make_server().run()
