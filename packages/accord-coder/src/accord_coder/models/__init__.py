"""The models: language models of providers and local servers, and a demonstration model."""

from __future__ import annotations

__all__ = ()
