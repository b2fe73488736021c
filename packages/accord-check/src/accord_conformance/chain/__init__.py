"""The scenarios for proxies."""

from __future__ import annotations

__all__ = ()
