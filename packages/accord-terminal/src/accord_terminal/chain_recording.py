"""Records the hops of `accord chain --trace FILE`; imported with that option only."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from accord.proxy.conductor import Component
from accord_terminal.trace.options import open_recording
from accord_trace.chain_recorder import ChainRecorder


@contextmanager
def recorded(
    path: Path, parts: Sequence[Component], *, redact: bool, max_size: float | None
) -> Generator[ChainRecorder]:
    """Record to a file; `parts` have unique names."""
    argv = [part.name for part in parts]
    with open_recording(path, argv, redact=redact, max_size=max_size) as recording:
        yield ChainRecorder(recording, parts)
