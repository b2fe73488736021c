"""What answers: the embedded model, and language models of providers."""

from __future__ import annotations

__all__ = ()
