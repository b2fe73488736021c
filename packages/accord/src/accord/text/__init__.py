"""Text: JSON that msgspec rejects, and excerpts for users."""

__all__ = ()
