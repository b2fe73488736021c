"""Serves agents on the network: the ASGI application, its limits and its security."""

from __future__ import annotations

__all__ = ()
