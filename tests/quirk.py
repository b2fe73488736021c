"""Ties tests to the rows of the table of quirks."""

from __future__ import annotations

import pytest

from accord.rules.quirks import QUIRKS

__all__ = ("quirk",)


def quirk(*ids: str) -> pytest.MarkDecorator:
    """Mark a test that shows how a quirk is tolerated."""
    for name in ids:
        QUIRKS[name]
    return pytest.mark.quirk(*ids)
