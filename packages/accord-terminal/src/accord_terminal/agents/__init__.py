"""`accord agents` and `accord doctor`: agents from registries, and what starts here."""

__all__ = ()
