"""Judges of turns and what they report: order, states, compactions, content blocks."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.judges.base import Evidence, Judge, items
from accord_conformance.traffic.connection_state import Session, Turn, update_of
from accord_conformance.traffic.message import Notification, Request, Side, format_value, other

# Turns of version 1: what belongs before the response, and the effects of a cancel.

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


# Messages of a v2 agent after the end of a cancelled turn.

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


# Session states in version 2: states, prompts, background work.

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


# Compactions of a session's context.

_COMPACTION_FINAL = ("completed", "failed", "cancelled")


class Compaction(Judge):
    """R-COMP."""

    rules = ("R-COMP-03",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # The last status and its message, by session and compaction.
        self._last: dict[tuple[str | None, str], tuple[Any, Notification]] = {}

    def on_notification(self, note: Notification) -> None:
        update = update_of(note)
        if note.method != "session/update" or update.get("sessionUpdate") != "compaction_update":
            return
        key, status = (note.session_id, repr(update.get("compactionId"))), update.get("status")
        previous = self._last.get(key)
        if status in _COMPACTION_FINAL:
            self.judge(
                "R-COMP-03",
                previous is None or previous[0] not in _COMPACTION_FINAL or previous[0] == status,
                previous[1] if previous else None,
                note,
                expected="one final status",
                got=f"{format_value(status)} after {format_value(previous and previous[0])}",
            )
        self._last[key] = (status, note)


# Content blocks: their data matches their type, in any message.

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.*")
# Members with any content.
_FREE = ("_meta", "rawInput", "rawOutput", "data")


class Content(Judge):
    """R-CONT, R-PLAN-11, and the trace context in `_meta`."""

    rules = ("R-CONT-06", "R-PLAN-11", "R-EXT-02")

    def on_request(self, call: Request) -> None:
        self._value(call.params, call.sender, call)

    def on_notification(self, note: Notification) -> None:
        self._value(note.params, note.sender, note)

    def on_response(self, call: Request) -> None:
        self._value(call.result, other(call.sender), call)

    def _value(self, value: Any, by: Side, seen: Evidence) -> None:
        if not self.is_judged(by):
            return
        meta = value.get("_meta") if is_object(value) else None
        if is_object(meta) and "traceparent" in meta:
            parent = meta["traceparent"]
            self.judge(
                "R-EXT-02",
                isinstance(parent, str) and bool(_TRACEPARENT.fullmatch(parent)),
                seen,
                expected="`traceparent` in the format of the W3C",
                got=format_value(parent),
                by=by,
            )
        for found in _objects(value):
            self._object(found, by, seen)

    def _object(self, value: dict[str, Any], by: Side, seen: Evidence) -> None:
        for key, text in _encoded(value):
            self.judge(
                "R-CONT-06",
                _is_base64(text),
                seen,
                expected=f"Base64 as `{key}`",
                got=format_value(text),
                by=by,
            )
        for key, text in _uris(value):
            self.judge(
                "R-CONT-06",
                bool(_SCHEME.match(text)),
                seen,
                expected=f"an absolute URI as `{key}`",
                got=format_value(text),
                by=by,
            )
        annotations = value.get("annotations")
        priority = annotations.get("priority") if is_object(annotations) else None
        if isinstance(priority, int | float) and not isinstance(priority, bool):
            self.judge(
                "R-CONT-06",
                0 <= priority <= 1,
                seen,
                expected="a priority from 0 to 1",
                got=format_value(priority),
                by=by,
            )
        if value.get("type") == "file" and "planId" in value and isinstance(value.get("uri"), str):
            self.judge(
                "R-PLAN-11",
                bool(_SCHEME.match(value["uri"])),
                seen,
                expected="an absolute URI",
                got=format_value(value["uri"]),
            )


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a message, except in members with any content."""
    if is_object(value):
        yield value
        for key, inner in value.items():
            if key not in _FREE:
                yield from _objects(inner)
    elif is_array(value):
        for inner in value:
            yield from _objects(inner)


def _encoded(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    is_media = value.get("type") in ("image", "audio") and "mimeType" in value
    if is_media and isinstance(value.get("data"), str):
        yield "data", value["data"]
    if isinstance(value.get("blob"), str) and "uri" in value:
        yield "blob", value["blob"]
    if value.get("sessionUpdate") == "terminal_output_chunk" and isinstance(value.get("data"), str):
        yield "data", value["data"]
    output = value.get("output")
    if (
        value.get("sessionUpdate") == "terminal_update"
        and is_object(output)
        and isinstance(output.get("data"), str)
    ):
        yield "output.data", output["data"]


def _uris(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    uri = value.get("uri")
    if not isinstance(uri, str):
        return
    resource = "blob" in value or "text" in value
    if value.get("type") in ("resource_link", "image") or resource:
        yield "uri", uri


def _is_base64(text: str) -> bool:
    try:
        binascii.a2b_base64(text.encode(), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return True
