"""The bundled coding agent: `accord agent`, built on Accord's public API alone."""

from __future__ import annotations

__all__ = ()
