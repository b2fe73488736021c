"""The client side in version 2."""

__all__ = ()
