"""The values of fleets, which can be pickled and written as JSON."""

__all__ = ()
