"""Graders: commands, Python functions and agents that decide whether an attempt succeeded."""

__all__ = ()
