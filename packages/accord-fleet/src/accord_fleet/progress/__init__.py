"""Shows a run while it is in progress: at a terminal, as lines, or as JSON."""

__all__ = ()
