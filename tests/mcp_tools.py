"""Sessions with tools, whose agent is played by the test."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.types import CallToolResult, TextContent

from accord import ConnectedAgent
from accord.mcp.consumer import CLIENT_CAPABILITIES, MCP_VERSION, PROTOCOL_VERSION
from client.wire_agents import ByHand

__all__ = ("META", "Opened", "capabilities", "open_session", "text_of")

META = {PROTOCOL_VERSION: MCP_VERSION, CLIENT_CAPABILITIES: {}}


def capabilities(version: int, *kinds: str) -> dict[str, Any]:
    """Return an initialize result of an agent with these transports of MCP."""
    if version == 1:
        session = {"sessionCapabilities": {"close": {}}}
        return {"agentCapabilities": {"mcpCapabilities": dict.fromkeys(kinds, True), **session}}
    return {"capabilities": {"session": {"mcp": {kind: {} for kind in kinds}, "close": {}}}}


class Opened:
    """A session, and the declarations that its agent received."""

    def __init__(self, agent: ConnectedAgent, raw: ByHand, servers: list[Any]) -> None:
        self.agent = agent
        self.raw = raw
        self.servers = servers
        self._ids = 100

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send an MCP request as the agent does; return its id."""
        return self.ask_with({**(params or {}), "_meta": META}, method)

    def ask_with(self, params: Any, method: str = "tools/list") -> int:
        """Send an MCP request with exactly these params."""
        self._ids += 1
        message = {
            "serverId": self.servers[0]["serverId"],
            "requestId": f"r{self._ids}",
            "method": method,
            "params": params,
        }
        self.raw.ask(self._ids, "mcp/message", message)
        return self._ids

    async def answer_to(self, method: str, params: dict[str, Any] | None = None) -> Any:
        self.ask(method, params)
        return await self.raw.get()


async def open_session(agent: ConnectedAgent, raw: ByHand, *tools: Any) -> Opened:
    opening = asyncio.create_task(agent.new_session("/", tools=tools))
    request = await raw.get()
    raw.answer(request["id"], {"sessionId": "s1"})
    await opening
    return Opened(agent, raw, request["params"]["mcpServers"])


def text_of(result: CallToolResult) -> str:
    """Return the text of the result of a tool."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text
