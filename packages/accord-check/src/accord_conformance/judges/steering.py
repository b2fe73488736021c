"""The judge of what the user says while a turn runs: the extension `_session/steering`."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord.types.steering import OUTCOMES, STEERING, is_advertised, outcome_of
from accord_conformance.judges.base import Judge
from accord_conformance.traffic.connection_state import Session, update_of
from accord_conformance.traffic.message import Notification, Request, format_value

_WORK = ("agent_message_chunk", "agent_thought_chunk", "tool_call")  # in version 1
_DONE = ("completed", "failed")
_ASK = "session/request_permission"


class Steering(Judge):
    """R-STEER: advice, because it is an extension."""

    rules = ("R-STEER-01", "R-STEER-02", "R-STEER-05", "R-STEER-06")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._injected: dict[str, Request] = {}  # the last message of the running turn, by session
        self._ended: dict[str, Request] = {}  # the same, of the last turn
        self._cancelled: set[str] = set()  # sessions whose last turn was cancelled
        # Permission requests that were pending when the user said something, and what.
        self._asked: list[tuple[Request, Request]] = []

    @property
    def _is_advertised(self) -> bool | None:
        """Whether the agent can be steered; None without its response to `initialize`."""
        first = self.state.initialized
        result: Any = None if first is None else first.result
        return is_advertised(result.get("_meta")) if is_object(result) else None

    def on_request(self, call: Request) -> None:
        if call.sender != "client" or call.session_id is None:
            return
        if call.method == STEERING:
            if (known := self._is_advertised) is not None:
                self.judge(
                    "R-STEER-01",
                    known,
                    self.state.initialized,
                    call,
                    expected="no message during a turn for an agent that does not advertise it",
                    got=STEERING,
                )
            pending = self.state.unanswered("agent", _ASK, call.session_id)
            self._asked += [(asked, call) for asked in pending]
        elif call.method in ("session/prompt", "session/load"):
            self._ended.pop(call.session_id, None)

    def on_response(self, call: Request) -> None:
        session = self.state.find_session(call.session_id)
        if call.method == STEERING and call.sender == "client":
            self._answered(call, session)
        elif call.method == _ASK:
            for said in self._said_during(call):
                self.judge("R-STEER-06", True, call, said)
            self._asked = [one for one in self._asked if one[0] is not call]
        elif self.state.version == 1 and call.method == "session/prompt" and session is not None:
            self._turn_ended(session, call, call.result)

    def _answered(self, call: Request, session: Session | None) -> None:
        outcome = outcome_of(call.result)
        if call.ok and self._is_advertised:
            self.judge(
                "R-STEER-02",
                outcome is not None,
                call,
                expected=f"one of the outcomes {', '.join(OUTCOMES)}",
                got=format_value(call.result),
            )
        if session is None:
            return
        if outcome == "startedNewTurn":
            self._ended.pop(session.id, None)
        if outcome != "injected":
            return
        if self._is_idle(session):
            self.judge(
                "R-STEER-05",
                False,
                session.last_turn,
                call,
                expected="a running turn that has the message",
                got="the outcome injected after the end of the turn",
            )
        else:
            self._injected[session.id] = call

    def _is_idle(self, session: Session) -> bool:
        """Return whether no turn runs, as far as it is known; a cancel may cross the message."""
        if session.id in self._cancelled:
            return False
        if self.state.version == 1:
            return session.turn is None and session.last_turn is not None
        waiting = self.state.unanswered("client", "session/prompt", session.id)
        return session.state == "idle" and not waiting

    def _turn_ended(self, session: Session, end: Request | Notification, how: Any) -> None:
        reason = how.get("stopReason") if is_object(how) else None
        (self._cancelled.add if reason == "cancelled" else self._cancelled.discard)(session.id)
        if (said := self._injected.pop(session.id, None)) is not None:
            self.judge("R-STEER-05", True)
            self._ended[session.id] = said
        for asked, said in self._asked:
            if asked.session_id == session.id:
                self._not_left_open(asked, said, end, "the end of the turn")

    def on_notification(self, note: Notification) -> None:
        if note.method == "session/cancel":
            self._asked = [one for one in self._asked if one[0].session_id != note.session_id]
        elif note.method == "$/cancel_request" and note.sender == "agent":
            params = note.params if is_object(note.params) else {}
            call = self.state.find_request("agent", params.get("requestId"))
            for said in self._said_during(call):
                self._not_left_open(call, said, note, "its cancel")
        elif note.method == "session/update" and note.sender == "agent":
            session = self.state.find_session(note.session_id)
            if session is not None:
                self._updated(session, note, update_of(note))

    def _updated(self, session: Session, note: Notification, update: dict[str, Any]) -> None:
        kind = update.get("sessionUpdate")
        if kind == "state_update" and update.get("state") == "idle":
            self._turn_ended(session, note, update)
        elif kind == "tool_call_update" and update.get("status") in _DONE:
            for asked, said in self._asked:
                if asked.session_id == session.id and _tool_of(asked) == update.get("toolCallId"):
                    self._not_left_open(asked, said, note, f"the status {update['status']}")
        elif kind in _WORK and self.state.version == 1 and session.turn is None:
            self._worked_late(session, note, kind)

    def _worked_late(self, session: Session, note: Notification, kind: Any) -> None:
        if (said := self._ended.pop(session.id, None)) is not None:
            self.judge(
                "R-STEER-05",
                False,
                said,
                session.last_turn,
                note,
                expected="the end of the turn after the work on the message",
                got=f"{kind} after the end of the turn",
            )

    def _said_during(self, call: Request | None) -> list[Request]:
        return [said for asked, said in self._asked if asked is call]

    def _not_left_open(
        self, asked: Request | None, said: Request, end: Request | Notification, got: str
    ) -> None:
        self.judge(
            "R-STEER-06",
            False,
            asked,
            said,
            end,
            expected="a permission request that waits for the user",
            got=f"{got} before the user has answered",
        )


def _tool_of(asked: Request) -> Any:
    """Return the id of the tool call that a permission request is about."""
    params = asked.params if is_object(asked.params) else {}
    subject = params.get("subject")
    tool = subject.get("toolCall") if is_object(subject) else params.get("toolCall")
    return tool.get("toolCallId") if is_object(tool) else None
