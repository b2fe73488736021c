"""The model gateway: holds the keys of providers, counts tokens, honours rate limits.

`gateway` is the server between agents and providers, in the order of a request. `providers` reads
their addresses, keys and prices, and `limiter` has their rates; both are used without a server.
"""

__all__ = ()
