"""`accord install`: adds agents to the settings of editors."""

__all__ = ()
