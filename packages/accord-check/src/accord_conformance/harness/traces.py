"""The frames of a connection as a file for `accord check trace`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from accord_conformance.harness.raw_connection import RawConnection
from accord_conformance.traffic import recording
from accord_conformance.traffic.frame import Frame, other

PRIVATE = 0o600  # the mode of a trace file


def write_trace(folder: Path, name: str, line: RawConnection) -> Path:
    """Write the frames of a connection into a folder; return the file.

    Only the user can read the file: frames contain prompts, file contents and secrets.
    """
    return _write(folder, name, trace_bytes(line))


def write_frames(folder: Path, name: str, frames: Iterable[Frame]) -> Path:
    """Write frames of all hops into a folder; return the file, which only the user can read."""
    rows = (recording.write(frame.time, frame.sender, frame.text) for frame in frames)
    return _write(folder, name, b"".join(rows))


def _write(folder: Path, name: str, text: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name.replace("/", "-") + ".ndjson")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        path.chmod(PRIVATE)  # of an existing file
        file.write(text)
    return path


def trace_bytes(line: RawConnection) -> bytes:
    """Return the frames of a connection in the format of a file; the peer is judged."""
    frames = line.observer.state.frames
    rows = (recording.write(frame.time, frame.sender, frame.text) for frame in frames)
    return b"".join((recording.write_judged_side(other(line.side)), *rows))
