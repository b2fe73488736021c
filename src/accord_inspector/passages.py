"""What lets the page change the messages that pass, and add others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from accord.trace.records import Direction
from accord.transports.base import Frame

__all__ = ("INJECTED", "Deliver", "Passage", "Passages", "is_of_injected", "is_request_by_hand")

# Passes frames on: to the next side, from the event loop, now or later.
Deliver: TypeAlias = Callable[[Sequence[Frame]], None]
# Gets the frames of one direction and what passes them on: it may drop, delay or change them.
Passage: TypeAlias = Callable[[Sequence[Frame], Deliver], None]
Passages: TypeAlias = dict[Direction, Passage]

INJECTED = "inspect-"  # the ids of requests that are sent by hand begin with it
_INJECTED_ID = re.compile(rb'"id"\s*:\s*"inspect-')
_METHOD = re.compile(rb'"method"\s*:')


def is_of_injected(frame: Frame) -> bool:
    """Return whether a frame is the response to a request that was sent by hand."""
    return _INJECTED_ID.search(frame) is not None and _METHOD.search(frame) is None


def is_request_by_hand(frame: Frame) -> bool:
    """Return whether a frame is a request whose response is not for the other side."""
    return _INJECTED_ID.search(frame) is not None and _METHOD.search(frame) is not None
