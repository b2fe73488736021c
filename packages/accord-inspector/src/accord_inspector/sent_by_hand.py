"""Recognizes requests that were sent by hand, and the responses to them, by their ids."""

from __future__ import annotations

import re

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.transports.base import Frame

INJECTED = "inspect-"  # the ids of requests that are sent by hand begin with it
_INJECTED_ID = re.compile(rb'"id"\s*:\s*"inspect-')


class _Envelope(Struct, gc=False):
    method: Raw | UnsetType = UNSET
    id: str | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Envelope).decode


def is_of_injected(frame: Frame) -> bool:
    """Return whether a frame is the response to a request that was sent by hand."""
    envelope = _injected(frame)
    return envelope is not None and envelope.method is UNSET


def is_request_by_hand(frame: Frame) -> bool:
    """Return whether a frame is a request whose response is not for the other side."""
    envelope = _injected(frame)
    return envelope is not None and envelope.method is not UNSET


def _injected(frame: Frame) -> _Envelope | None:
    if not _INJECTED_ID.search(frame):
        return None
    try:
        envelope = _decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if envelope.id is UNSET or not envelope.id.startswith(INJECTED):
        return None
    return envelope
