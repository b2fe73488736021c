"""Sessions: created, loaded, resumed, closed."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord.v2.session import ReplayFromStart
from accord_conformance.judges.base import Judge
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.observed_session import Session
from accord_conformance.traffic.strict_types import find_problems, format_value

_HISTORY_V1 = ("user_message_chunk", "tool_call")
_HISTORY_V2 = ("user_message", "user_message_chunk")
_OPENS = ("session/load", "session/resume")
_ASKS = ("session/request_permission", "elicitation/create")


class Sessions(Judge):
    """R-SESS, and which session a message may name."""

    rules = (
        "R-SESS-01",
        "R-SESS-02",
        "R-SESS-09",
        "R-SESS-12",
        "R-SESS-13",
        "R-SESS-16",
        "R-SESS-22",
        "R-SESS-29",
        "R-SESS-33",
        "R-SESS-34",
        "R-PROMPT-01",
        "R-ERR-02",
        "R-STATUS-03",
        "R-STATUS-04",
        "R-SUBAG-02",
        "R-SUBAG-03",
        "R-SUBAG-05",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._loaded: set[str] = set()  # by session/load, and not prompted since
        self._states: set[str] = set()  # sessions that reported their state since they were resumed
        self._asked_status: set[str] = set()
        self._nameless: dict[
            str, Notification | Request
        ] = {}  # by sessions that were named before they were reported
        self._asked: dict[
            str, list[Request]
        ] = {}  # pending requests to the user when a session is closed

    def on_request(self, call: Request) -> None:
        ident = call.session_id
        if ident is None:
            return
        if call.sender == "agent":
            self._named(ident, call)
            return
        session = self.state.find_session(ident)
        if session is not None and session.parent_id and call.method in _OPENS:
            self.judge(
                "R-SUBAG-03",
                False,
                call,
                expected="no request to open or subscribe to a child session",
                got=call.method,
            )
        match call.method:
            case "session/prompt":
                self._loaded.discard(ident)
                self._prompt(ident, session, call)
            case "session/resume":
                self._states.discard(ident)
            case "session/status":
                self._asked_status.add(ident)
            case "session/close":
                self._asked[ident] = self._waiting(ident)
            case "session/set_mode" | "session/set_config_option":
                self._named(ident, call)
            case _:
                pass

    def _prompt(self, ident: str, session: Session | None, call: Request) -> None:
        if session is not None and session.parent_id is not None and not session.is_open:
            self._child(session, call)
            return
        ready = session is not None and session.is_open
        waits = session is not None and session.setup is not None and session.setup.response is None
        rule = "R-STATUS-04" if ident in self._asked_status else "R-PROMPT-01"
        self.judge(
            rule,
            ready and not waits,
            call,
            expected="a session that was opened on this connection",
            got=f"a prompt for {format_value(ident)}",
        )

    def _child(self, session: Session, seen: Request | Notification) -> None:
        allowed = seen.method == "session/cancel" and session.is_cancellable
        self.judge(
            "R-SUBAG-05",
            allowed,
            seen,
            expected="requests for a child session only with its own capability",
            got=seen.method,
        )

    def on_notification(self, note: Notification) -> None:
        ident = note.session_id
        if ident is None:
            return
        session = self.state.find_session(ident)
        if note.sender == "client":
            is_child = session is not None and session.parent_id and not session.is_open
            if note.method == "session/cancel" and session is not None and is_child:
                self._child(session, note)
            return
        self._named(ident, note)
        if note.method != "session/update" or session is None:
            return
        update = update_of(note)
        kind = update.get("sessionUpdate")
        if kind == "state_update":
            self._states.add(ident)
            if update.get("state") == "idle":
                self._end_of_announcements()
        if kind == "subagent_update":
            self._announced(update)
        if kind == "user_message_chunk" and ident in self._loaded:
            self.judge(
                "R-SESS-09",
                False,
                session.setup,
                note,
                expected="the whole history before the response to session/load",
                got="more history after the response",
            )
        history = _HISTORY_V1 if self.state.version == 1 else _HISTORY_V2
        if kind in history:
            self._history(session, note)

    def _history(self, session: Session, note: Notification) -> None:
        """Judge that a resumed session is not replayed, unless the client requested it."""
        setup = session.setup
        if setup is None or setup.method != "session/resume" or setup.response is not None:
            return
        if setup.params.get("replayFrom") is not None or session.turn is not None:
            return
        if session.state in ("running", "requires_action"):
            return
        self.judge(
            "R-SESS-12" if self.state.version == 1 else "R-SESS-13",
            False,
            setup,
            note,
            expected="no history before the response to session/resume",
            got=format_value(update_of(note).get("sessionUpdate")),
        )

    def _named(self, ident: str, seen: Request | Notification) -> None:
        session = self.state.find_session(ident)
        if self.state.version is None:
            return
        if session is None and self.state.is_opening_session:
            return  # it may be the one that is being created
        if session is None and seen.sender == "agent":
            self._nameless.setdefault(ident, seen)  # it may be announced too late
            return
        self.judge(
            "R-SESS-02",
            session is not None,
            seen,
            expected="a session that was reported on this connection",
            got=format_value(ident),
            by=seen.sender,
        )
        if session is not None and session.closed is not None and seen.sender == "agent":
            self.judge(
                "R-SESS-33",
                session.is_open,
                session.closed,
                seen,
                expected="nothing more for the session after the response to session/close",
                got=seen.method,
            )

    def _announced(self, update: dict[str, Any]) -> None:
        """Judge that a subagent is reported before its first message."""
        ident = update.get("sessionId")
        if isinstance(ident, str) and self.state.find_session(ident) is None:
            early = self._nameless.pop(ident, None)
            self.judge(
                "R-SUBAG-02",
                early is None,
                early,
                expected=f"a subagent_update for {format_value(ident)} "
                "before any other message that names it",
                got="a message of the child before it",
            )

    def on_end(self) -> None:
        if any(session.closed is not None for session in self.state.sessions.values()):
            self.judge("R-SESS-33", True)
        if any(session.parent_id for session in self.state.sessions.values()):
            self.judge("R-SUBAG-03", True)
        self._end_of_announcements()

    def _end_of_announcements(self) -> None:
        """Judge sessions that were named, and were not reported until the end of a turn."""
        for ident, seen in self._nameless.items():
            self.judge(
                "R-SESS-02",
                False,
                seen,
                expected="a session that was reported on this connection",
                got=format_value(ident),
                by="agent",
            )
        self._nameless.clear()

    def on_response(self, call: Request) -> None:
        if call.sender != "client":
            return
        if call.code == -32002 and call.method != "session/status":
            self._unknown_session(call)
        if call.method == "session/prompt" and self.state.version == 1:
            self._end_of_announcements()
        ident = call.session_id
        session = self.state.find_session(ident)
        match call.method:
            case "session/new" | "session/fork" if call.ok:
                self._made(call)
            case "session/load" if call.ok and ident is not None:
                self._loaded.add(ident)
                self.judge("R-SESS-09", True)
            case "session/resume" if ident is not None:
                self._resumed(ident, call)
            case "session/close" if call.ok and session is not None:
                self._closed(session, call)
            case "session/status" if call.code == -32002:
                self._status(call)
            case "session/prompt" if session is not None and session.turn is not None:
                closed = session.turn.request is call and session.turn.closed
                if closed and self.state.version == 1:
                    self.judge(
                        "R-SESS-22",
                        call.ok,
                        closed,
                        call,
                        expected="a response with a stop reason, because the session was closed",
                        got=f"error {format_value(call.code)}",
                    )
            case _:
                pass

    def _made(self, call: Request) -> None:
        ident = call.result.get("sessionId") if is_object(call.result) else None
        known = self.state.find_session(ident)
        if isinstance(ident, str):
            self.judge(
                "R-SESS-01",
                known is None or known.setup is None,
                known.setup if known else None,
                call,
                expected="an id that no other session has",
                got=format_value(ident),
            )
        others = [
            other
            for other in self.state.open_requests["client"].values()
            if other.method in ("session/new", "session/fork") and other is not call
        ]
        for session in self.state.sessions.values():
            unknown = session.setup is None and session.parent_id is None
            if unknown and session.id != ident and not others:
                self.judge(
                    "R-SESS-02",
                    False,
                    call,
                    expected=f"updates for {format_value(ident)}, which is being created",
                    got=f"updates for {format_value(session.id)}",
                    by="agent",
                )
                session.parent_id = ""  # reported once

    def _resumed(self, ident: str, call: Request) -> None:
        replay = call.params.get("replayFrom")
        rule = "R-SESS-12" if self.state.version == 1 else "R-SESS-13"
        if call.ok and replay is None:
            self.judge(rule, True)
        if replay is not None and find_problems(ReplayFromStart, replay):
            self.judge(
                "R-SESS-16",
                call.code == -32602,
                call,
                expected="-32602 for an unknown `replayFrom`",
                got="a result" if call.ok else format_value(call.code),
            )
        elif call.ok:
            self.judge(
                "R-SESS-29",
                ident in self._states,
                call,
                expected="a state_update before the response to session/resume",
                got="none",
            )

    def _closed(self, session: Session, call: Request) -> None:
        if self.state.version != 2:
            return
        self.judge(
            "R-SESS-22",
            session.state not in ("running", "requires_action"),
            call,
            expected="an idle state before the response to session/close",
            got=f"the state {format_value(session.state)}",
        )
        before = self._asked.pop(session.id, [])
        since = [asked for asked in self._waiting(session.id) if asked not in before]
        for asked in (*before, *since):
            if asked.cancelled is None and asked.response is not None:
                continue  # the client responded first
            self.judge(
                "R-SESS-34",
                asked.cancelled is not None,
                asked,
                call,
                expected="`$/cancel_request` for the pending requests of the closed session",
                got=f"{asked.method} still open",
            )

    def _waiting(self, ident: str) -> list[Request]:
        return [call for method in _ASKS for call in self.state.unanswered("agent", method, ident)]

    def _unknown_session(self, call: Request) -> None:
        error: Any = call.response.error if call.response else None
        data = error.get("data")
        if data is not None and call.session_id is not None and self.state.version == 2:
            self.judge(
                "R-ERR-02",
                is_object(data) and data.get("sessionId") == call.session_id,
                call,
                expected="`data` with the `sessionId`",
                got=format_value(data),
                by="agent",
            )

    def _status(self, call: Request) -> None:
        error: Any = call.response.error if call.response else None
        data = error.get("data") if is_object(error) else None
        self.judge(
            "R-STATUS-03",
            is_object(data) and data.get("sessionId") == call.session_id,
            call,
            expected="`data` with the `sessionId`",
            got=format_value(data),
        )
