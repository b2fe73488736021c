"""One JSON-RPC connection on asyncio: order, bounds, request handlers."""

__all__ = ()
