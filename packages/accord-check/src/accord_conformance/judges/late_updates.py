"""Messages of a v2 agent after the end of a cancelled turn."""

from __future__ import annotations

from typing import Any

from accord_conformance.judges.base import Judge
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.strict_types import format_value

_CHUNKS = ("agent_message_chunk", "agent_thought_chunk")


class LateUpdates(Judge):
    """R-CANCEL-09 of version 2, for messages: tool calls may continue in the background."""

    rules = ("R-CANCEL-09",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._turn_messages: dict[str, set[str]] = {}  # ids, by session
        self._over: dict[str, Notification] = {}  # the state update that ended the turn, by session

    def on_request(self, call: Request) -> None:
        if call.method == "session/resume" and call.session_id is not None:
            self._forget(call.session_id)  # the replay may contain all of it

    def on_notification(self, note: Notification) -> None:
        session = note.session_id
        if self.state.version != 2 or note.method != "session/update" or session is None:
            return
        update = update_of(note)
        kind = update.get("sessionUpdate")
        if kind == "state_update":
            self._state(session, update, note)
        elif kind in _CHUNKS and isinstance(update.get("messageId"), str):
            self._chunk(session, update["messageId"], note)

    def _state(self, session: str, update: dict[str, Any], note: Notification) -> None:
        if update.get("state") != "idle":
            if session in self._over:
                self._forget(session)
        elif update.get("stopReason") == "cancelled" and update.get("background") == []:
            self._over[session] = note
            self.judge("R-CANCEL-09", True)

    def _forget(self, session: str) -> None:
        self._over.pop(session, None)
        self._turn_messages.pop(session, None)

    def _chunk(self, session: str, message: str, note: Notification) -> None:
        turn_messages = self._turn_messages.setdefault(session, set())
        over = self._over.get(session)
        if over is None:
            turn_messages.add(message)
        elif message in turn_messages:
            self.judge(
                "R-CANCEL-09",
                False,
                over,
                note,
                expected="all chunks of a message before the idle state of its cancelled turn",
                got=f"more of {format_value(message)} after it",
            )
