"""Tests an agent: starts it, runs scenarios, reports."""

__all__ = ()
