"""Engines: they run attempts on this machine or on a cluster."""

__all__ = ()
