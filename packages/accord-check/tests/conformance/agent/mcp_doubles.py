"""Agents that violate one rule about MCP servers of the client."""

from __future__ import annotations

from conformance.agent.filtered_agent import Json, MessageFilter
from conformance.agent.session_doubles import double

__all__ = ("McpConsumer",)

_META: Json = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class McpConsumer(MessageFilter):
    """Lists the tools of an MCP server of the client when a session declares it."""

    answered = False

    def up(self, message: Json) -> Json | None:
        if message.get("id") == "mcp-1" and "method" not in message:
            self.answered = True
            return None
        if message.get("method") == "mcp/message":
            self.notified(message["params"])
            return None
        params = message.get("params")
        servers = params.get("mcpServers") if isinstance(params, dict) else None
        for one in servers if isinstance(servers, list) else []:
            if isinstance(one, dict) and one.get("type") == "acp":
                inner: Json = {"method": "tools/list", "params": {"_meta": _META}}
                asked = {"serverId": one["serverId"], "requestId": "r1", **inner}
                self.tell({"id": "mcp-1", "method": "mcp/message", "params": asked})
                return {**message, "params": {**message["params"], "mcpServers": []}}
        return message

    def notified(self, params: Json) -> None:
        """Handle a notification of the server."""

    def down(self, message: Json) -> Json | None:
        call = self.calls.get(repr(message.get("id")), {})
        result = message.get("result")
        if call.get("method") != "initialize" or not isinstance(result, dict):
            return message
        if (offers := result.get("agentCapabilities")) is not None:
            offers["mcpCapabilities"] = {**offers.get("mcpCapabilities", {}), "acp": True}
        else:
            session = result["capabilities"]["session"]
            session["mcp"] = {**session.get("mcp", {}), "acp": {}}
        return message


@double("R-MOA-07")
class LeavesAtUnknownRequests(McpConsumer):
    def notified(self, params: Json) -> None:
        if params["requestId"] != "r1":
            self.leave()


@double("R-MOA-15")
class LeavesAtLateNotifications(McpConsumer):
    def notified(self, params: Json) -> None:
        if self.answered:
            self.leave()


@double("R-MOA-16")
class Connects(MessageFilter):
    def up(self, message: Json) -> Json | None:
        if message.get("method") == "_mcp/connect":
            self.answer(message, {"connectionId": "1"})
            return None
        return message
