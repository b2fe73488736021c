"""Which actions the coding agent may take without asking."""

__all__ = ()
