"""Frames, messages, and the state of a connection that follows from them."""

__all__ = ()
