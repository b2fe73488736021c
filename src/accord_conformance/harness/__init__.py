"""Playing one side: what a program under test is talked to by, and what it is asked."""

from __future__ import annotations

__all__ = ()
