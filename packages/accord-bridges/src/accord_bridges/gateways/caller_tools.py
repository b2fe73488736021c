"""The tools of a caller, as an MCP server of the session: a call of one waits for the caller."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp.server import Server, ServerRequestContext
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from accord.mcp.bridges import StdioBridge
from accord.mcp.servers import NamedServer

if TYPE_CHECKING:
    from accord_bridges.gateways.turns import CallerTool, Conversation

_NAME = "caller"


class CallerTools:
    """Serves the tools that the caller has declared in its last request."""

    def __init__(self, conversation: Conversation) -> None:
        self.offered: Mapping[str, CallerTool] = {}
        self._conversation = conversation
        server: Server[Any] = Server(_NAME, on_list_tools=self._list, on_call_tool=self._call)
        self._bridge = StdioBridge([NamedServer(_NAME, server)])
        self.is_open = False
        self._file = conversation.sessions.folder / f"{conversation.id}.mcp.json"

    async def open(self) -> str:
        """Serve the tools; return the path of a file that says how to reach the server."""
        [server] = await self._bridge.start()
        entry = {"command": server.command, "args": list(server.args), "env": dict(server.env)}
        self._write({_NAME: entry})
        self.is_open = True
        return str(self._file)

    async def aclose(self) -> None:
        """Stop serving: the session opens without the tools from now on."""
        await self._bridge.aclose()
        if self.is_open:
            self._write({})

    def _write(self, servers: Mapping[str, Any]) -> None:
        fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:  # it has a token
            json.dump({"mcpServers": servers}, file)

    async def _list(
        self, _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        tools = [
            Tool(
                name=tool.name,
                description=tool.description or None,
                input_schema={"type": "object", **tool.parameters},
            )
            for tool in self.offered.values()
        ]
        return ListToolsResult(tools=tools)

    async def _call(
        self, _context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        if params.name not in self.offered:
            return _error(f"The caller does not offer the tool {params.name!r} any more")
        running = self._conversation.running
        if running is None:
            return _error("No request of the caller is running")
        try:
            given = await running.call(params.name, params.arguments or {})
        except TimeoutError:
            return _error("The caller did not return a result")
        return CallToolResult(content=[TextContent(type="text", text=str(given))])


def _error(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
