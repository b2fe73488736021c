"""What `accord ask` asks the user at the terminal: permissions, forms, URLs."""

from __future__ import annotations

__all__ = ()
