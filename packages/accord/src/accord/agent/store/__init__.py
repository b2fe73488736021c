"""Stored sessions: the stores, the stored form of updates, and replay."""

__all__ = ()
