"""MCP over ACP: tools that one side of a connection provides, and the other side uses."""

__all__: tuple[str, ...] = ()
