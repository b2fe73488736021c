"""Turns of version 1: what belongs before the response, and the effects of a cancel."""

from __future__ import annotations

from accord.text.lenient_json import is_object
from accord_conformance.judges.base import Judge
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.observed_session import Session, Turn
from accord_conformance.traffic.strict_types import format_value

# After this time, a message has been read by the other side.
NOTICED_S = 2.0
_FINAL = ("completed", "failed")


class Turns(Judge):
    """R-PROMPT and R-CANCEL of version 1; late updates, and the client's responses."""

    rules = (
        "R-PROMPT-08",
        "R-TOOL-04",
        "R-CANCEL-03",
        "R-CANCEL-05",
        "R-CANCEL-06",
        "R-CANCEL-09",
        "R-PERM-03",
    )

    def on_notification(self, note: Notification) -> None:
        session = self.state.find_session(note.session_id)
        if self.state.version != 1 or session is None or note.method != "session/update":
            return
        update = update_of(note)
        last, tool = session.last_turn, str(update.get("toolCallId"))
        if update.get("sessionUpdate") != "tool_call_update" or last is None:
            return
        if session.turn is None and tool in last.tools:
            self.judge(
                "R-CANCEL-09" if last.cancelled else "R-PROMPT-08",
                False,
                last,
                note,
                expected="all updates of a turn before the response to its prompt",
                got="an update of a tool call of that turn after it",
            )

    def on_response(self, call: Request) -> None:
        session = self.state.find_session(call.session_id)
        if self.state.version != 1 or session is None:
            return
        if call.method == "session/request_permission" and call.sender == "agent":
            self._permission(session, call)
        elif call.method == "session/prompt" and session.turn and session.turn.request is call:
            self._prompt(session, session.turn, call)

    def _permission(self, session: Session, call: Request) -> None:
        turn = session.turn
        if turn is None or turn.cancelled is None:
            return
        # Before or after the cancel: the turn was cancelled.
        rule = "R-CANCEL-03" if call.frame.number < turn.cancelled.number else "R-PERM-03"
        self.judge(
            rule,
            outcome_of(call) == "cancelled",
            turn.cancelled,
            call,
            expected="the outcome cancelled, because the turn was cancelled",
            got=format_value(call.result) if call.ok else f"error {format_value(call.code)}",
        )

    def _prompt(self, session: Session, turn: Turn, call: Request) -> None:
        reason = call.result.get("stopReason") if is_object(call.result) else None
        self.judge("R-PROMPT-08", True)
        if turn.cancelled is not None:
            self._cancelled(turn, call, reason)
        elif reason == "end_turn":
            for ident in sorted(turn.tools):
                tool = session.tools.get(ident)
                if tool is None or tool.turn is not turn:
                    continue
                self.judge(
                    "R-TOOL-04",
                    tool.fields.get("status") in _FINAL,
                    tool.first,
                    tool.last,
                    call,
                    expected=f"completed or failed for {format_value(ident)} "
                    "before the end of the turn",
                    got=format_value(tool.fields.get("status", "pending")),
                )

    def _cancelled(self, turn: Turn, call: Request, reason: object) -> None:
        assert turn.cancelled is not None
        assert call.response is not None
        self.judge("R-CANCEL-09", True)
        if reason == "cancelled":
            self.judge("R-CANCEL-05", True)
            self.judge("R-CANCEL-06", True)
            return
        late = call.response.frame.time - turn.cancelled.time >= NOTICED_S
        if not turn.permission_pending_at_cancel and not late:
            return  # they may have crossed
        rule = "R-CANCEL-05" if call.ok else "R-CANCEL-06"
        self.judge(
            rule,
            False,
            turn.cancelled,
            call,
            expected="the stop reason cancelled",
            got=format_value(reason) if call.ok else f"error {format_value(call.code)}",
        )


def outcome_of(call: Request) -> object:
    """Return the outcome of an answered permission request."""
    outcome = call.result.get("outcome") if is_object(call.result) else None
    return outcome.get("outcome") if is_object(outcome) else None
