"""Runs `accord` with some words in the process of the test, which is quicker than a program."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest

from accord.program import main


def run(
    words: Sequence[str], *, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> CompletedProcess[str]:
    """Run a command without input; return its exit status, its output and its errors.

    What it does on its own file descriptors, by signals and at its exit is not tested by this. It
    cannot be called while an event loop runs.
    """
    folder = folder or Path.cwd()
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        open(os.devnull, encoding="utf-8") as nothing,  # noqa: PTH123  # a device
        _nothing_stays(folder),
        chdir(folder),
        patch.dict(os.environ, env or {}),
        patch.object(sys, "stdin", nothing),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        status = main(words)
    said, reported = (stream.buffer.getvalue().decode() for stream in (out, err))
    return CompletedProcess(list(words), status, said, reported)


@contextmanager
def _nothing_stays(folder: Path) -> Generator[None]:
    """Restore what a command changes for the rest of its process."""
    known, root = set(sys.modules), logging.getLogger()
    with pytest.MonkeyPatch.context() as changes:
        changes.setattr(sys, "path", [*sys.path])
        changes.setattr(root, "handlers", [*root.handlers])
        changes.setattr(root, "level", root.level)
        yield
    for name in set(sys.modules) - known:
        if (Path(getattr(sys.modules[name], "__file__", None) or "/")).is_relative_to(folder):
            del sys.modules[name]
