"""What a proxy knows about the sessions of its chain."""

from __future__ import annotations

from typing import Any

from accord.client.events import StateChanged, ToolCall
from accord.proxy.redacted_updates import SessionRedaction

_MAX_TOOL_CALLS = 1000  # of one session, that are not final
_MAX_SESSIONS = 10_000  # that were not closed


class ProxiedSession:
    """One session: only what later messages need."""

    __slots__ = ("_tool_calls", "cwd", "has_commands", "id", "redaction", "state", "turns")

    def __init__(self, session_id: str) -> None:
        self.id: str = session_id
        self.cwd: str = ""
        self.redaction: SessionRedaction = SessionRedaction()
        self.has_commands: bool = False  # the agent has sent its slash commands
        self.turns: list[Any] = []  # the running ones; version 2 allows several
        self.state: StateChanged | None = None  # in version 2
        self._tool_calls: dict[str, ToolCall] = {}

    def tool_call(self, call_id: str) -> ToolCall | None:
        """Return a tool call that is not final."""
        return self._tool_calls.get(call_id)

    @property
    def calls(self) -> Any:
        """This session, where a reader of tool calls needs a transcript."""
        return self

    def keep(self, call: ToolCall) -> None:
        """Keep the state of a tool call until it is final."""
        self._tool_calls.pop(call.id, None)
        if call.is_final:
            return
        self._tool_calls[call.id] = call
        if len(self._tool_calls) > _MAX_TOOL_CALLS:
            del self._tool_calls[next(iter(self._tool_calls))]

    def end_turn(self) -> None:
        """Forget what belonged to the turn."""
        self._tool_calls.clear()


class ProxiedSessions:
    """The sessions of one chain."""

    def __init__(self) -> None:
        self._sessions: dict[str, ProxiedSession] = {}

    def __getitem__(self, session_id: str) -> ProxiedSession:
        found = self._sessions.get(session_id)
        if found is None:
            found = self._sessions[session_id] = ProxiedSession(session_id)
            if len(self._sessions) > _MAX_SESSIONS:
                idle = (key for key, session in self._sessions.items() if not session.turns)
                self._sessions.pop(next(idle, session_id), None)
        return found

    def drop(self, session_id: str) -> None:
        """Forget a session that was closed."""
        self._sessions.pop(session_id, None)
