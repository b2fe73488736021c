"""The agent side in version 2."""

__all__ = ()
