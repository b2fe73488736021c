"""`accord trace`: records messages and reads recordings. `command` is the group of its commands."""

from __future__ import annotations

__all__ = ()
