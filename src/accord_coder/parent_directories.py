"""The directories above a session's that may have a say in it: up to its repository, as in git."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

__all__ = ("with_parents",)


def with_parents(folder: str, environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a directory and those above it, as far as git looks for a repository.

    Git does not go up into a directory that `GIT_CEILING_DIRECTORIES` names.
    """
    named = environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
    ceilings = {os.path.normpath(name) for name in named if name}
    here = os.path.normpath(folder)
    while True:
        yield here
        parent = os.path.dirname(here)  # noqa: PTH120  # a text
        if parent == here or parent in ceilings:
            return
        here = parent
