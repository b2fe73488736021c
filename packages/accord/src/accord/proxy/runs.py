"""Runs: notifications of one method that were read together, and pass a chain together.

A streaming agent sends hundreds of updates that begin with the same bytes. What is the same is
looked at once for all of them; their params are checked together.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from accord.transports.base import Frame


class Run(Struct, frozen=True, gc=False):
    """Notifications in the order in which they came."""

    method: str
    texts: Sequence[Frame]  # the params of each, objects as JSON text
    frames: Sequence[Frame]  # as they came
    head: bytes  # what precedes the params in each of the frames
    size: int  # of all params, in bytes
