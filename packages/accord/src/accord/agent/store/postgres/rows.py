"""What PostgreSQL can store of a session."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from accord.agent.store.base import StoredSession
from accord.agent.store.rows import row_of as _row_of


def row_of(session: StoredSession) -> tuple[Any, ...]:
    """Return the values of `COLUMNS`; PostgreSQL stores no NUL."""
    if session.title is not None and "\0" in session.title:
        session = replace(session, title=session.title.replace("\0", "?"))
    return _row_of(session)


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can represent a text; a client may send any."""
    if "\0" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
