"""Fleets: the same tasks for many agents, on this machine or on a cluster."""

__all__ = ()
