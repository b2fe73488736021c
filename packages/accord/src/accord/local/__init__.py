"""Files and processes of this machine, within bounds; both sides use them to serve requests."""

from __future__ import annotations

__all__ = ()
