"""One JSON-RPC connection on asyncio: calls, lanes, back-pressure, request handlers."""

__all__ = ()
