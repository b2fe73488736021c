"""The rules of the protocol as data, and how to select them."""

__all__ = ()
