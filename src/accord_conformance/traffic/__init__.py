"""Frames, messages and the state that they bring about."""

__all__ = ()
