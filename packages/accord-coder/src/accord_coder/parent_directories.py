"""The parent directories whose files apply to a session: up to the root of its repository."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping


def with_parents(folder: str, environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a directory and its parents, up to where git looks for a repository.

    Git stops before a directory in `GIT_CEILING_DIRECTORIES`.
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
