"""Next edit suggestions (NES): a protocol family added to version 1 from outside.

The family is in no schema. This package uses only public extension points, and nothing imports it.
To remove it, delete this folder and its line in `accord_conformance/rules/manifest.py`.
"""

from __future__ import annotations

__all__ = ()
