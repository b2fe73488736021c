"""One JSON-RPC connection on asyncio: calls, lanes, back-pressure, request handlers.

Read `connection` first: a frame is decoded by the `Route` of its method (`routes`), waits in the
lane of its session (`lanes`), and is handled; `calls` has the requests in progress on both sides.
`limits` bounds all of it, `tasks` has what coroutines and their cancellation need. Messages of a
session are handled in order, each request gets exactly one response, and a slow handler stops the
peer instead of filling the memory.
"""

__all__ = ()
