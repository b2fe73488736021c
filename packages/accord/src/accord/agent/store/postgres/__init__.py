"""Sessions in PostgreSQL, which several servers share."""

__all__ = ()
