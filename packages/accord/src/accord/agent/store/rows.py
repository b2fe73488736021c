"""Sessions as rows of an SQL table."""

from __future__ import annotations

import json
from typing import Any

from accord.agent.store.base import StoredSession

COLUMNS = "id, cwd, additional, title, title_is_users, updated_at, archived, principal"


def row_of(session: StoredSession) -> tuple[Any, ...]:
    """Return the values of `COLUMNS`."""
    return (
        session.id,
        session.cwd,
        json.dumps(session.additional_directories),
        # UTF-8 cannot represent a lone surrogate.
        None if session.title is None else session.title.encode("utf-8", "replace").decode(),
        session.title_is_users,
        session.updated_at,
        session.archived,
        session.principal,
    )


def stored_of(row: Any) -> StoredSession:
    """Return the session of a row with `COLUMNS`."""
    session_id, cwd, additional, title, title_is_users, updated_at, archived, principal = row
    return StoredSession(
        id=session_id,
        cwd=cwd,
        additional_directories=tuple(json.loads(additional)),
        title=title,
        title_is_users=bool(title_is_users),
        updated_at=updated_at,
        archived=bool(archived),
        principal=principal,
    )
