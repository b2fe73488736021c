"""Tests an agent: starts it, plays scenarios, reports."""

__all__ = ()
