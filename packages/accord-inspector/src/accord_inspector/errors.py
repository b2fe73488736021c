"""Errors that the page shows."""

from __future__ import annotations

__all__ = ("ApiError",)


class ApiError(Exception):
    """A request of the page that cannot be served: an HTTP status, and a text for the user."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status: int = status
        self.text: str = text
