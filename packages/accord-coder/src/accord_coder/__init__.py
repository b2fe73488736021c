"""The bundled coding agent: `accord agent`, built only on Accord's public API."""

from __future__ import annotations

__all__ = ()
