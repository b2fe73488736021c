"""Stored sessions: stores, records, replay."""

__all__ = ()
