"""Cursors of `watch`: a place in the journal of one session, as text for programs to keep."""

from __future__ import annotations

import base64
import binascii

import msgspec

from accord_terminal.sessions.errors import USAGE, SessionsError


class CursorError(SessionsError):
    """The text is not a cursor of this session."""

    status = USAGE


def cursor_of(record_id: str, seq: int) -> str:
    """Return the cursor after an entry: base64url of `[record id, sequence]`."""
    return base64.urlsafe_b64encode(msgspec.json.encode([record_id, seq])).decode().rstrip("=")


def place_of(cursor: str, record_id: str) -> int:
    """Return the sequence number of a cursor; raise `CursorError` for another session's."""
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        record, seq = msgspec.json.decode(data, type=tuple[str, int])
    except (binascii.Error, UnicodeError, msgspec.MsgspecError, ValueError):
        raise CursorError(f"Expected a cursor of `accord session watch`, got {cursor!r}") from None
    if record != record_id or seq < 0:
        raise CursorError(f"The cursor belongs to the session {record}, not to {record_id}")
    return seq
