"""Remembers the latest session of a directory, for agents that cannot list their sessions."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from platformdirs import user_state_path

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent


_FILE = "sessions.json"
_MAX_SESSIONS = 500  # the latest ones

_Entry = tuple[str, str, str]  # agent name, directory, session id


def remembered_session(agent: ConnectedAgent, cwd: Path) -> str | None:
    """Return the id of the session that was last opened with this agent in this directory."""
    for name, folder, session_id in reversed(_read()):
        if (name, folder) == (agent.info.name, str(cwd)):
            return session_id
    return None


def remember_session(agent: ConnectedAgent, cwd: Path, session_id: str) -> None:
    """Store the id of a session, if the agent can load sessions but cannot list them."""
    can_load = agent.supports("load_session") or agent.supports("resume_session")
    if agent.supports("list_sessions") or not can_load:
        return
    place = (agent.info.name, str(cwd))
    entries = [entry for entry in _read() if entry[:2] != place]
    entries.append((*place, session_id))
    with contextlib.suppress(OSError):  # a read-only home directory
        _write(entries[-_MAX_SESSIONS:])


def _path() -> Path:
    return user_state_path("accord", appauthor=False) / _FILE


def _read() -> list[_Entry]:
    try:
        return msgspec.json.decode(_path().read_bytes(), type=list[_Entry])
    except (OSError, msgspec.MsgspecError):
        return []


def _write(entries: list[_Entry]) -> None:
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{_FILE}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(entries))
        Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
