"""Makes a server of this process from one that is reached by a client of the library `mcp`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client
from mcp.server import Server, ServerRequestContext
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)


def forwarding_server(name: str, client: Client) -> Server[Any]:
    """Return a server that passes requests for tools, resources and prompts to another one.

    The client connects once, in the lifespan of the server, by whatever handshake the other server
    needs. So servers of older revisions, and those with a state per connection, can be provided
    over ACP (A-120). What they request of their client fails: its answers could not be forwarded.
    """
    forwarder = _Forwarder(client)
    return Server(
        name,
        lifespan=forwarder.lifespan,
        on_list_tools=forwarder.list_tools,
        on_call_tool=forwarder.call_tool,
        on_list_resources=forwarder.list_resources,
        on_list_resource_templates=forwarder.list_resource_templates,
        on_read_resource=forwarder.read_resource,
        on_list_prompts=forwarder.list_prompts,
        on_get_prompt=forwarder.get_prompt,
    )


class _Forwarder:
    def __init__(self, client: Client) -> None:
        self._client = client

    @asynccontextmanager
    async def lifespan(self, _server: Server[Any]) -> AsyncGenerator[None, None]:
        async with self._client:
            yield

    async def list_tools(
        self, _context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        if self._client.server_capabilities.tools is None:
            return ListToolsResult(tools=[])
        return await self._client.list_tools(cursor=_cursor(params))

    async def call_tool(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        return await self._client.call_tool(
            params.name, params.arguments, progress_callback=context.session.report_progress
        )

    async def list_resources(
        self, _context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        if self._client.server_capabilities.resources is None:
            return ListResourcesResult(resources=[])
        return await self._client.list_resources(cursor=_cursor(params))

    async def list_resource_templates(
        self, _context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        if self._client.server_capabilities.resources is None:
            return ListResourceTemplatesResult(resource_templates=[])
        return await self._client.list_resource_templates(cursor=_cursor(params))

    async def read_resource(
        self, _context: ServerRequestContext[Any], params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        return await self._client.read_resource(str(params.uri))

    async def list_prompts(
        self, _context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        if self._client.server_capabilities.prompts is None:
            return ListPromptsResult(prompts=[])
        return await self._client.list_prompts(cursor=_cursor(params))

    async def get_prompt(
        self, _context: ServerRequestContext[Any], params: GetPromptRequestParams
    ) -> GetPromptResult:
        return await self._client.get_prompt(params.name, params.arguments)


def _cursor(params: PaginatedRequestParams | None) -> str | None:
    return None if params is None else params.cursor
