"""Session states in version 2: states, prompts, background work."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.judges.base import Judge
from accord_conformance.judges.paths import items
from accord_conformance.judges.turns import NOTICED_S
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.observed_session import Session
from accord_conformance.traffic.strict_types import format_value

_WORKING = ("running", "requires_action")
_BLOCKS = ("text", "image", "audio", "resource_link", "resource")
_STOPS = ("session/close", "session/delete", "session/archive", "tool_call/cancel")


class SessionStates(Judge):
    """R-PROMPT, R-CANCEL, R-BGW and R-TOOL-04 of version 2."""

    rules = (
        "R-PROMPT-10",
        "R-PROMPT-11",
        "R-PROMPT-13",
        "R-PROMPT-25",
        "R-PROMPT-26",
        "R-PROMPT-32",
        "R-CANCEL-07",
        "R-CANCEL-08",
        "R-CANCEL-14",
        "R-BGW-02",
        "R-BGW-03",
        "R-BGW-04",
        "R-BGW-05",
        "R-TOOL-04",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._echoed: dict[str, set[Any]] = {}  # message ids, by session
        self._inserted: list[Request] = []
        self._idle: dict[str, int] = {}  # number of the last frame with an idle state, by session
        self._cancels: dict[str, tuple[Notification, list[Request]]] = {}
        self._last_states: dict[str, dict[str, Any]] = {}  # the last state update, by session
        self._unended: set[tuple[str, str]] = set()  # tool calls that were reported
        self._may_stop = False  # the client sent a request that stops work

    def on_request(self, call: Request) -> None:
        if call.sender == "agent":
            # The user's answer may stop the work.
            self._may_stop |= call.method.startswith(("session/request", "elicitation/"))
            return
        self._may_stop |= call.method in _STOPS
        if call.method == "session/prompt" and is_object(call.params):
            self.judge(
                "R-PROMPT-25",
                call.params.get("prompt") != [],
                call,
                expected="at least one block",
                got="an empty prompt",
            )

    def on_response(self, call: Request) -> None:
        if call.method != "session/prompt" or self.state.version != 2:
            return
        blocks = items(call.params, "prompt") if is_object(call.params) else []
        if any(block.get("type") not in _BLOCKS for block in blocks):
            self.judge(
                "R-PROMPT-26",
                call.code == -32602,
                call,
                expected="-32602 for a block of a type that is not supported",
                got="a result" if call.ok else format_value(call.code),
            )
        if call.ok and is_object(call.result) and isinstance(call.result.get("messageId"), str):
            self._inserted.append(call)

    def on_notification(self, note: Notification) -> None:
        if self.state.version != 2:
            return
        session = self.state.find_session(note.session_id)
        if note.sender == "client":
            self._may_stop |= note.method in ("session/cancel", "$/cancel_request")
            if note.method == "session/cancel" and session and session.state in _WORKING:
                asked = self.state.unanswered("agent", "session/request_permission", session.id)
                self._cancels.setdefault(session.id, (note, asked))
            return
        if note.method != "session/update":
            return
        update = update_of(note)
        kind = update.get("sessionUpdate")
        if kind in ("user_message", "user_message_chunk"):
            # Also of an unknown session: an update during a later `session/new` makes it known.
            self._echoed.setdefault(str(note.session_id), set()).add(str(update.get("messageId")))
        if session is not None and kind == "state_update":
            self._background(session, update, note)
            self._last_states[session.id] = update
            if update.get("state") == "idle":
                self._idles(session, update, note)

    def _idles(self, session: Session, update: dict[str, Any], note: Notification) -> None:
        self._idle[session.id] = note.frame.number
        reason = update.get("stopReason")
        if session.state in _WORKING:
            self.judge(
                "R-PROMPT-13",
                reason is not None,
                note,
                expected="a stop reason in the idle update that ends the work",
                got="none",
            )
            self._cancelled(session, reason, note)
            if reason == "end_turn" and update.get("background") == []:
                self._tools(session, note)
        made_here = session.setup is not None and session.setup.method == "session/new"
        if not made_here or reason is None:
            return
        if any(call.session_id == session.id for call in self._inserted):
            self.judge(
                "R-PROMPT-11",
                session.has_been_running,
                note,
                expected="running or requires_action before the idle state that ends the work",
                got="only the idle state",
            )
        if reason == "cancelled":
            self.judge(
                "R-PROMPT-32",
                self._may_stop,
                note,
                expected="cancelled only if the user or the client stopped the work",
                got="cancelled, although neither did",
            )

    def _tools(self, session: Session, note: Notification) -> None:
        """Judge that no tool call is in progress when all work has ended."""
        for ident, tool in session.tools.items():
            if (session.id, ident) in self._unended:
                continue
            left = tool.fields.get("status") == "in_progress"
            if left:
                self._unended.add((session.id, ident))
            self.judge(
                "R-TOOL-04",
                not left,
                tool.first,
                tool.last,
                note,
                expected=f"a final status of {format_value(ident)} before the end of the work",
                got="in_progress",
            )

    def _cancelled(self, session: Session, reason: Any, note: Notification) -> None:
        if session.id not in self._cancels:
            return
        cancel, asked = self._cancels.pop(session.id)
        if reason == "cancelled":
            self.judge("R-CANCEL-07", True)
            self.judge("R-CANCEL-08", True)
            for call in asked:
                if session.reports_background and session.background:
                    continue  # the request may belong to background work
                settled = call.response is not None or call.cancelled is not None
                self.judge(
                    "R-CANCEL-14",
                    settled,
                    call,
                    cancel,
                    note,
                    expected="`$/cancel_request` for the pending requests of the cancelled work",
                    got="the request still open",
                )
            return
        if asked or note.frame.time - cancel.frame.time >= NOTICED_S:
            self.judge(
                "R-CANCEL-08" if reason == "error" else "R-CANCEL-07",
                False,
                cancel,
                note,
                expected="the stop reason cancelled",
                got=format_value(reason),
            )

    def _background(self, session: Session, update: dict[str, Any], note: Notification) -> None:
        background = update.get("background")
        if session.reports_background:
            self.judge(
                "R-BGW-02",
                is_array(background) or update.get("state") not in (*_WORKING, "idle"),
                note,
                expected="`background` on every state_update once it was reported",
                got=format_value(background),
            )
        if not is_array(background):
            return
        keys = [_entity(item) for item in background if is_object(item)]
        self.judge(
            "R-BGW-04",
            len(keys) == len(set(keys)),
            note,
            expected="each item of work once",
            got=format_value(background),
        )
        if session.setup is None or session.setup.method != "session/new":
            return  # it may have been reported on another connection
        for kind, ident in keys:
            if kind in ("terminal", "tool_call", "subagent"):
                self._listed(session, kind, ident, note)
            if kind == "subagent" and ident in self._last_states:
                child = self._last_states[ident]
                self.judge(
                    "R-BGW-05",
                    child.get("state") != "idle" or child.get("background") != [],
                    note,
                    expected="only subagents in which something still runs",
                    got=f"{format_value(ident)}, which is idle and reported no work",
                )
        for item in session.background:
            if is_object(item) and _entity(item) not in keys:
                self._delisted(session, *_entity(item), note)

    def _listed(self, session: Session, kind: str, ident: str, note: Notification) -> None:
        entities = {"terminal": session.terminals, "tool_call": session.tools}.get(
            kind, self.state.sessions
        )
        self.judge(
            "R-BGW-03",
            ident in entities,
            note,
            expected=f"an update for {format_value(ident)} before it is listed",
            got="none",
        )

    def _delisted(self, session: Session, kind: str, ident: str, note: Notification) -> None:
        if kind == "terminal" and ident in session.terminals:
            ended = is_object(session.terminals[ident].fields.get("exitStatus"))
        elif kind == "tool_call" and ident in session.tools:
            ended = session.tools[ident].fields.get("status") in (
                "completed",
                "failed",
                "cancelled",
            )
        else:
            return
        self.judge(
            "R-BGW-03",
            ended,
            note,
            expected=f"the end of {format_value(ident)} before it is no longer listed",
            got="none",
        )

    def on_end(self) -> None:
        for call in self._inserted:
            assert call.response is not None
            if self._idle.get(call.session_id or "", 0) < call.response.frame.number:
                continue  # the work may not have begun
            self.judge(
                "R-PROMPT-10",
                call.result["messageId"] in self._echoed.get(call.session_id or "", ()),
                call,
                expected=f"the user message {format_value(call.result['messageId'])} as an update",
                got="none",
            )


def _entity(item: dict[str, Any]) -> tuple[str, str]:
    ident = item.get("terminalId") or item.get("toolCallId") or item.get("sessionId")
    return str(item.get("type")), str(ident)
