"""The state of one connection as an onlooker has it: what is open, offered, known.

This file is the only one that changes the state. Judges see a message before it does.
"""

from __future__ import annotations

from typing import Any, Literal

from accord.errors import DecodeError
from accord.rules.negotiation import is_false_v2
from accord.text.lenient_json import is_array, is_object
from accord.v1.initialize import InitializeRequest as ClientV1
from accord.v1.initialize import InitializeResponse as AgentV1
from accord.v1.methods import METHODS as V1
from accord.v2.initialize import InitializeRequest as ClientV2
from accord.v2.initialize import InitializeResponse as AgentV2
from accord.v2.methods import METHODS as V2
from accord.wire.codec import convert
from accord.wire.method import Method
from accord_conformance.traffic.frame import Frame, Side
from accord_conformance.traffic.message import Call, Note
from accord_conformance.traffic.session_state import Entity, Session, Turn

__all__ = ("SETUPS", "Talk", "id_key", "methods", "update_of")

SETUPS = ("session/new", "session/load", "session/resume", "session/fork")
_REPEATABLE = ("session/load", "session/resume")


class Talk:
    """One connection; `version` is what `initialize` settled."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.version: Literal[1, 2] | None = None
        self.initialized: Call | None = None  # the latest that succeeded
        self.capabilities: dict[str, Any] = {"agent": None, "client": None}
        self.open: dict[Side, dict[tuple[type, Any], Call]] = {"agent": {}, "client": {}}
        self.calls: list[Call] = []  # all that were made
        self.notes: dict[Side, int] = {"agent": 0, "client": 0}
        self.broken: dict[Side, int] = {"agent": 0, "client": 0}
        self.sessions: dict[str, Session] = {}
        self.auth_methods: list[Any] = []
        self.ended: set[Side] = set()

    # Looking.

    def waiting(self, sender: Side, method: str, session_id: str | None = None) -> list[Call]:
        """Return the unanswered calls of a side, of one session if it is named."""
        return [
            call
            for call in self.open[sender].values()
            if call.method == method and session_id in (None, call.session_id)
        ]

    def find(self, sender: Side, ident: Any) -> Call | None:
        """Return an unanswered call by its id."""
        return self.open[sender].get(id_key(ident))

    def session(self, ident: Any) -> Session | None:
        """Return a session that was told of here."""
        return self.sessions.get(ident) if isinstance(ident, str) else None

    @property
    def setting_up(self) -> bool:
        """Whether a session is being made, whose id is not known yet."""
        return any(call.method in ("session/new", "session/fork") for call in self._client_calls())

    def _client_calls(self) -> list[Call]:
        return list(self.open["client"].values())

    # What happens.

    def called(self, call: Call) -> None:
        """A request was sent."""
        self.calls.append(call)
        self.open[call.sender][id_key(call.id)] = call
        session_id = call.session_id
        if call.method in _REPEATABLE and session_id is not None:
            known = self._meet(session_id)
            known.setup, known.attached, known.closed = call, True, None
            if call.method == "session/load":
                known.tools.clear()  # the replay tells of them again
            return
        session = self.session(session_id)
        if session is None:
            return
        if call.method == "session/prompt":
            session.turn = Turn(call)
        elif call.method == "session/close" and session.turn is not None:
            session.turn.closed = call.frame
        elif call.method == "session/request_permission" and call.sender == "agent":
            self._permission(session, call)

    def _permission(self, session: Session, call: Call) -> None:
        """What a permission request says of a tool call tells of that, too."""
        params = call.params
        subject = params.get("subject")
        tool = subject.get("toolCall") if is_object(subject) else params.get("toolCall")
        if is_object(tool):
            self._tool(session, tool, call.frame)

    def answered(self, call: Call) -> None:
        """A request got its answer."""
        self.open[call.sender].pop(id_key(call.id), None)
        if call.sender == "client":
            self._client_answered(call)

    def _client_answered(self, call: Call) -> None:
        session = self.session(call.session_id)
        if session is not None and session.turn is not None and session.turn.call is call:
            session.last_turn, session.turn = session.turn, None
        if not call.ok:
            if call.method in _REPEATABLE and session is not None and session.setup is call:
                session.attached = False
            return
        result: dict[str, Any] = call.result if is_object(call.result) else {}
        match call.method:
            case "initialize":
                self._settled(call, result)
            case "session/new" | "session/fork":
                if isinstance(result.get("sessionId"), str):
                    made = self._meet(result["sessionId"])
                    made.setup, made.attached = call, True
                    made.setup_answered(result)
            case "session/load" | "session/resume" if session is not None:
                session.setup_answered(result)
            case "session/close" | "session/delete" | "session/archive" if session is not None:
                session.attached = False
                if call.method == "session/close" and call.reply is not None:
                    session.closed = call.reply.frame
            case "session/set_config_option" if session is not None:
                if is_array(result.get("configOptions")):
                    session.options = result["configOptions"]
            case _:
                pass

    def _settled(self, call: Call, result: dict[str, Any]) -> None:
        version = result.get("protocolVersion")
        if version not in (1, 2):
            return
        # Some say 2 and mean 1: what follows is judged by what they mean.
        self.version = 2 if version == 2 and not is_false_v2(result) else 1
        self.initialized = call
        methods = result.get("authMethods")
        self.auth_methods = methods if is_array(methods) else []
        params = call.params if is_object(call.params) else {}
        if self.version == 1 and "capabilities" in params and "clientCapabilities" not in params:
            return  # what the words of version 2 offer in version 1 is the router's business
        try:
            if self.version == 1:
                agent = convert(result, AgentV1).agent_capabilities
                client = convert(params, ClientV1).client_capabilities
            else:
                agent = convert(result, AgentV2).capabilities
                client = convert(params, ClientV2).capabilities
        except DecodeError:
            return  # told of by the judge of shapes; gates stay unjudged
        self.capabilities = {"agent": agent, "client": client}

    def noted(self, note: Note) -> None:
        """A notification was sent."""
        self.notes[note.sender] += 1
        if note.method == "$/cancel_request" and is_object(note.params):
            call = self.find(note.sender, note.params.get("requestId"))
            if call is not None and call.cancelled is None:
                call.cancelled = note.frame
            return
        if note.session_id is None:
            return
        if note.method == "session/cancel" and note.sender == "client":
            session = self.session(note.session_id)
            if session is not None and session.turn is not None and not session.turn.cancelled:
                session.turn.cancelled = note.frame
                asked = self.waiting("agent", "session/request_permission", session.id)
                session.turn.asked_when_cancelled = bool(asked)
        elif note.method == "session/update" and note.sender == "agent":
            session = self.session(note.session_id)
            if session is None:
                if not self.setting_up:
                    return
                session = self._meet(note.session_id)
            self._updated(session, note)

    def _updated(self, session: Session, note: Note) -> None:
        update = update_of(note)
        match update.get("sessionUpdate"):
            case "tool_call" | "tool_call_update":
                self._tool(session, update, note.frame)
            case "terminal_update":
                self._told(session.shown, update, "terminalId", note.frame)
            case "terminal_output_chunk":
                told = {"terminalId": update.get("terminalId")}
                self._told(session.shown, told, "terminalId", note.frame)
            case "tool_call_content_chunk":
                told = {"toolCallId": update.get("toolCallId")}
                self._told(session.tools, told, "toolCallId", note.frame)
            case "state_update":
                session.state = str(update.get("state"))
                session.ever_worked |= session.state in ("running", "requires_action")
                background = update.get("background")
                session.reports_background |= is_array(background)
                session.background = background if is_array(background) else []
            case "config_option_update" if is_array(update.get("configOptions")):
                session.options = update["configOptions"]
            case "subagent_update" if isinstance(update.get("sessionId"), str):
                child = self._meet(update["sessionId"])
                child.child_of = session.id
                if "capabilities" in update:
                    capabilities = update["capabilities"]
                    child.child_cancel = is_object(capabilities) and is_object(
                        capabilities.get("cancel")
                    )
            case _:
                pass

    def _tool(self, session: Session, told: dict[str, Any], frame: Frame) -> None:
        known = str(told.get("toolCallId")) in session.tools
        entity = self._told(session.tools, told, "toolCallId", frame)
        if entity is not None and session.turn is not None and not known:
            entity.turn = session.turn
            session.turn.tools.add(told["toolCallId"])

    def _told(
        self, entities: dict[str, Entity], told: dict[str, Any], key: str, frame: Frame
    ) -> Entity | None:
        ident = told.get(key)
        if not isinstance(ident, str):
            return None
        entity = entities.get(ident)
        if entity is None:
            entity = entities[ident] = Entity(frame, frame)
        entity.last = frame
        # In v1 null keeps; in v2 it clears, which for reading is the same as null.
        keep_null = self.version != 1
        new = {name: value for name, value in told.items() if keep_null or value is not None}
        entity.fields.update(new)
        return entity

    def _meet(self, ident: str) -> Session:
        return self.sessions.setdefault(ident, Session(ident))


def update_of(note: Note) -> dict[str, Any]:
    """Return the update that a `session/update` carries, or an empty object."""
    update = note.params.get("update") if is_object(note.params) else None
    return update if is_object(update) else {}


def methods(version: int) -> tuple[Method, ...]:
    """Return the method table of a version."""
    return V1 if version == 1 else V2


def id_key(ident: Any) -> tuple[type, Any]:
    """Return what ids are matched by: their JSON type and value (R-GEN-06); 1.0 is 1."""
    if isinstance(ident, float) and ident.is_integer():
        ident = int(ident)
    if isinstance(ident, str | int | float | None):
        return type(ident), ident
    return object, repr(ident)  # none that the protocol allows
