"""Permissions: rules, modes, and the files that always require permission."""

__all__ = ()
