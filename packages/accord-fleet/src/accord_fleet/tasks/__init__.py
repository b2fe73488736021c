"""Tasks: read from files and Python, checked before anything runs."""

__all__ = ()
