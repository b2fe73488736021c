"""The agent side in version 1."""

__all__ = ()
