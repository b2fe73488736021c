"""Text: JSON that msgspec refuses, and excerpts for people."""

__all__ = ()
