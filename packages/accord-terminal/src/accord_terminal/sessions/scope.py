"""What a session is found by: agent, directory and name (R-NAMED-01)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct


class Scope(Struct, frozen=True):
    """The key of an open session; at most one open session has it."""

    argv: tuple[str, ...]
    cwd: str
    name: str | None


def folders_upward(cwd: Path) -> Iterator[str]:
    """Yield a directory and those above it, up to the root of its git repository.

    Outside of a repository only the directory itself.
    """
    cwd = cwd.resolve()
    upward = [cwd, *cwd.parents]
    root = next((folder for folder in upward if (folder / ".git").exists()), cwd)
    for folder in upward:
        yield str(folder)
        if folder == root:
            return
