"""The peer's own words, told again in an error: what it sent may be megabytes long."""

from __future__ import annotations

__all__ = ("excerpt",)


def excerpt(text: str, most: int = 200) -> str:
    """Return a text, cut to so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
