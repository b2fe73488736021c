"""MCP over ACP: servers of the client or of a proxy, and connections to those of a session.

An agent uses `connections`, which speaks the library `mcp` to servers of all kinds, and `consumer`,
which sends the messages for servers of the client. Clients and proxies give tools: `provider`
serves `mcp/message` without the library, `servers` makes servers from what a program gives, and
`bridges` brings them to agents without MCP over ACP: by HTTP, or by `shim`, a stdio server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Type checkers read these imports, Python the table below; a test keeps them equal.
if TYPE_CHECKING:
    from accord.mcp.connections import (
        McpConnection as McpConnection,
    )
    from accord.mcp.connections import (
        McpConnections as McpConnections,
    )
    from accord.mcp.connections import (
        binding_error as binding_error,
    )
else:
    # Imported when first used: the library `mcp` is slow to import, and an extra.
    _LAZY = {
        name: module
        for module, names in {
            "accord.mcp.connections": "McpConnection McpConnections binding_error",
        }.items()
        for name in names.split()
    }
    __all__ = tuple(_LAZY)

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
