"""Proxies between a client and an agent, and the conductor that connects them."""

__all__ = ()
