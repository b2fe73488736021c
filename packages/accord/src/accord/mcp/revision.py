"""The revision of MCP that `mcp/message` carries, and what each request says about its sender."""

from __future__ import annotations

MCP_VERSION = "2026-07-28"

# The keys in `_meta` of each request (R-MOA-13).
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
