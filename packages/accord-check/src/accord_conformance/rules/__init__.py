"""The rules of the protocol as data (`data/`), and how to select them (`manifest`)."""

__all__ = ()
