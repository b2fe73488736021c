"""A turn of the coding agent: prompt, model, tools, history."""

__all__ = ()
