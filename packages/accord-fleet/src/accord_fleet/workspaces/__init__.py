"""Workspaces: the folders that attempts work in, prepared, compared and removed."""

__all__ = ()
