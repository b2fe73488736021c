"""The tools of a caller, as an MCP server of the session: a call of one waits for the caller."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
    )

    from accord.mcp.bridges import StdioBridge

_NAME = "caller"


class CallerTool(Struct, frozen=True):
    """A tool that the caller runs; `parameters` is a JSON schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = {}


class CallerTools:
    """Serves the tools in `offered`, which may change; `call` lets the caller run one.

    `file` says how to reach the server, for the process that opens the session.
    """

    def __init__(
        self, file: Path, call: Callable[[str, Mapping[str, Any]], Awaitable[object]]
    ) -> None:
        self.offered: Mapping[str, CallerTool] = {}
        self.seen: Mapping[str, CallerTool] | None = None
        """The tools that the agent has listed last; None: it has not, since its session opened."""
        self.file = file
        self._call_caller = call
        self._bridge: StdioBridge | None = None

    @property
    def is_open(self) -> bool:
        """Whether the tools are served."""
        return self._bridge is not None

    @property
    def is_outdated(self) -> bool:
        """Whether the agent does not know a tool that is offered, or has seen another form of it.

        What is not offered any more may be called in vain: that needs no new session.
        """
        seen = self.seen
        return seen is not None and any(
            seen.get(tool.name) != tool for tool in self.offered.values()
        )

    async def open(self) -> None:
        """Serve the tools, and write the file."""
        from mcp.server import Server

        from accord.mcp.bridges import StdioBridge
        from accord.mcp.servers import NamedServer

        server: Server[Any] = Server(_NAME, on_list_tools=self._list, on_call_tool=self._call)
        bridge = StdioBridge([NamedServer(_NAME, server)])
        [shim] = await bridge.start()
        self._bridge = bridge
        entry = {"command": shim.command, "args": list(shim.args), "env": dict(shim.env)}
        self._write({_NAME: entry})

    async def aclose(self) -> None:
        """Stop serving: the session opens without the tools from now on."""
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            await bridge.aclose()
            self.seen = None
            self._write({})

    def _write(self, servers: Mapping[str, Any]) -> None:
        fd = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:  # it has a token
            json.dump({"mcpServers": servers}, file)

    async def _list(
        self, _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        from mcp.types import ListToolsResult, Tool

        self.seen = self.offered
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
        from mcp.types import CallToolResult, TextContent

        def result(text: str, *, is_error: bool = False) -> CallToolResult:
            return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)

        if params.name not in self.offered:
            return result(
                f"The caller does not offer the tool {params.name!r} any more", is_error=True
            )
        try:
            return result(str(await self._call_caller(params.name, params.arguments or {})))
        except (TimeoutError, LookupError) as error:
            return result(str(error), is_error=True)
