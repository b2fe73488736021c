"""How far an installation is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct


class Progress(Struct, frozen=True):
    """What is being done; the sizes of a download are in bytes."""

    step: str  # downloading, extracting, `npm install`, …
    done: int | None = None
    total: int | None = None  # None if the server did not say it

    def __str__(self) -> str:
        if self.done is None:
            return self.step
        if not self.total:
            return f"{self.step} {_megabytes(self.done)} MB"
        percent = min(self.done * 100 // self.total, 100)
        return f"{self.step} {_megabytes(self.done)} of {_megabytes(self.total)} MB ({percent} %)"


OnProgress: TypeAlias = Callable[[Progress], None]


def no_progress(progress: Progress) -> None:
    """Take no note."""


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"
