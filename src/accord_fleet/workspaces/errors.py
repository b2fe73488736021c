"""The error of a workspace that cannot be prepared or compared."""

from __future__ import annotations

from accord.errors import AccordError

__all__ = ("WorkspaceError",)


class WorkspaceError(AccordError):
    """A workspace cannot be prepared; the message names what was expected and what came."""
