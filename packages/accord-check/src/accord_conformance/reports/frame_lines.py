"""One line about a frame for reports: number, time, sender and an excerpt."""

from __future__ import annotations

from accord.text.excerpt import one_line
from accord_conformance.traffic.frame import Frame

FRAME_CHARACTERS = 600


def frame_line(frame: Frame, most: int = FRAME_CHARACTERS) -> str:
    """Return a line about a frame."""
    sign = ">" if frame.sender == "client" else "<"
    text = one_line(frame.text.decode("utf-8", "replace"), most)
    return f"#{frame.number} {frame.time:.3f} s {sign} {text}"
