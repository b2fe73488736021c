"""The state of one connection as an observer knows it: requests, capabilities, sessions.

Only this file changes the state. Judges see a message before it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal

from msgspec import Struct, field

from accord.errors import DecodeError
from accord.rules.negotiation import is_false_v2
from accord.text.lenient_json import is_array, is_object
from accord.v1.methods import METHODS as V1
from accord.v1.methods import SPEC as SPEC_V1
from accord.v2.methods import METHODS as V2
from accord.v2.methods import SPEC as SPEC_V2
from accord.wire.codec import convert
from accord.wire.protocol import Method
from accord_conformance.rules.manifest import load_extensions
from accord_conformance.traffic.message import Frame, Notification, Request, Side

# The state of a session, as messages show it.


class Turn(Struct, eq=False):
    """A turn of version 1, until the response to its prompt."""

    request: Request
    cancelled: Frame | None = None  # the first session/cancel
    closed: Frame | None = None  # the session/close during the turn
    permission_pending_at_cancel: bool = False  # a permission request was pending
    tools: set[str] = field(default_factory=set[str])  # that were first reported in this turn


class ObservedEntity(Struct, eq=False):
    """A tool call or a terminal, as it was last reported."""

    first: Frame
    last: Frame
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    turn: Turn | None = None

    @property
    def cancellable(self) -> bool:
        """Whether it can be cancelled individually."""
        capabilities = self.fields.get("capabilities")
        return is_object(capabilities) and is_object(capabilities.get("cancel"))


class Session(Struct, eq=False):
    """One session; `setup` is the request that opened it, None before its response."""

    id: str
    setup: Request | None = None
    is_open: bool = False  # created, loaded or resumed on this connection, and not closed
    parent_id: str | None = None
    is_cancellable: bool = False
    closed: Frame | None = None  # the response to session/close
    turn: Turn | None = None
    last_turn: Turn | None = None
    tools: dict[str, ObservedEntity] = field(default_factory=dict[str, ObservedEntity])
    terminals: dict[str, ObservedEntity] = field(
        default_factory=dict[str, ObservedEntity]
    )  # terminals of v2
    state: str | None = None  # of v2, as last reported
    has_been_running: bool = False
    modes: frozenset[str] | None = None
    options: list[Any] | None = None
    reports_background: bool = False
    background: list[Any] = field(default_factory=list[Any])

    def apply_setup(self, result: dict[str, Any]) -> None:
        """Apply the result of a setup request."""
        modes = result.get("modes")
        if is_object(modes) and is_array(modes.get("availableModes")):
            ids = (mode.get("id") for mode in modes["availableModes"] if is_object(mode))
            self.modes = frozenset(ident for ident in ids if isinstance(ident, str))
        if is_array(result.get("configOptions")):
            self.options = result["configOptions"]

    def option(self, ident: Any) -> dict[str, Any] | None:
        """Return a config option by its id."""
        for option in self.options or ():
            if is_object(option) and ident in (option.get("id"), option.get("configId")):
                return option
        return None


SETUP_METHODS = ("session/new", "session/load", "session/resume", "session/fork")
_REPEATABLE = ("session/load", "session/resume")


class ConnectionState:
    """One connection; `version` is the agreed version, `judged_side` the only judged side."""

    def __init__(self) -> None:
        self.judged_side: Side | None = None
        self.frames: list[Frame] = []
        self.version: Literal[1, 2] | None = None
        self.initialized: Request | None = None  # the latest successful one
        self.capabilities: dict[str, Any] = {"agent": None, "client": None}
        self.open_requests: dict[Side, dict[tuple[type, Any], Request]] = {
            "agent": {},
            "client": {},
        }
        self.requests: list[Request] = []  # all requests
        self.notification_counts: dict[Side, int] = {"agent": 0, "client": 0}
        self.invalid_frame_counts: dict[Side, int] = {"agent": 0, "client": 0}
        self.sessions: dict[str, Session] = {}
        self.auth_methods: list[Any] = []
        self.ended_sides: set[Side] = set()

    # Queries.

    def unanswered(self, sender: Side, method: str, session_id: str | None = None) -> list[Request]:
        """Return the unanswered requests of a side, of one session if it is given."""
        return [
            call
            for call in self.open_requests[sender].values()
            if call.method == method and session_id in (None, call.session_id)
        ]

    def find_request(self, sender: Side, ident: Any) -> Request | None:
        """Return an unanswered request by its id."""
        return self.open_requests[sender].get(id_key(ident))

    def find_session(self, ident: Any) -> Session | None:
        """Return a session that is known on this connection."""
        return self.sessions.get(ident) if isinstance(ident, str) else None

    @property
    def is_opening_session(self) -> bool:
        """Whether a session is being created, whose id is not known yet."""
        return any(
            call.method in ("session/new", "session/fork") for call in self._open_client_requests()
        )

    def _open_client_requests(self) -> list[Request]:
        return list(self.open_requests["client"].values())

    # Messages.

    def on_request(self, call: Request) -> None:
        """Apply a request."""
        self.requests.append(call)
        self.open_requests[call.sender][id_key(call.id)] = call
        session_id = call.session_id
        if call.method in _REPEATABLE and session_id is not None:
            known = self._session_for(session_id)
            known.setup, known.is_open, known.closed = call, True, None
            if call.method == "session/load":
                known.tools.clear()  # the replay reports them again
            return
        session = self.find_session(session_id)
        if session is None:
            return
        if call.method == "session/prompt":
            session.turn = Turn(call)
        elif call.method == "session/close" and session.turn is not None:
            session.turn.closed = call.frame
        elif call.method == "session/request_permission" and call.sender == "agent":
            self._apply_permission(session, call)

    def _apply_permission(self, session: Session, call: Request) -> None:
        """Apply the tool call in a permission request."""
        params = call.params
        subject = params.get("subject")
        tool = subject.get("toolCall") if is_object(subject) else params.get("toolCall")
        if is_object(tool):
            self._apply_tool_call(session, tool, call.frame)

    def on_response(self, call: Request) -> None:
        """Apply the response to a request."""
        self.open_requests[call.sender].pop(id_key(call.id), None)
        if call.sender == "client":
            self._apply_response(call)

    def _apply_response(self, call: Request) -> None:
        session = self.find_session(call.session_id)
        if session is not None and session.turn is not None and session.turn.request is call:
            session.last_turn, session.turn = session.turn, None
        if not call.ok:
            if call.method in _REPEATABLE and session is not None and session.setup is call:
                session.is_open = False
            return
        result: dict[str, Any] = call.result if is_object(call.result) else {}
        match call.method:
            case "initialize":
                self._apply_initialize(call, result)
            case "session/new" | "session/fork":
                if isinstance(result.get("sessionId"), str):
                    made = self._session_for(result["sessionId"])
                    made.setup, made.is_open = call, True
                    made.apply_setup(result)
            case "session/load" | "session/resume" if session is not None:
                session.apply_setup(result)
            case "session/close" | "session/delete" | "session/archive" if session is not None:
                session.is_open = False
                if call.method == "session/close" and call.response is not None:
                    session.closed = call.response.frame
            case "session/set_config_option" if session is not None:
                if is_array(result.get("configOptions")):
                    session.options = result["configOptions"]
            case _:
                pass

    def _apply_initialize(self, call: Request, result: dict[str, Any]) -> None:
        version = result.get("protocolVersion")
        if version not in (1, 2):
            return
        # Some agents answer 2 and mean 1: they are judged by version 1.
        self.version = 2 if version == 2 and not is_false_v2(result) else 1
        self.initialized = call
        methods = result.get("authMethods")
        self.auth_methods = methods if is_array(methods) else []
        params = call.params if is_object(call.params) else {}
        if self.version == 1 and "capabilities" in params and "clientCapabilities" not in params:
            return  # the handshake translates the keys of version 2
        try:
            initialize, spec = _initialize(self.version), SPEC_V1 if self.version == 1 else SPEC_V2
            agent = spec.agent_capabilities(convert(result, initialize.result))
            client = spec.client_capabilities(convert(params, initialize.params))
        except DecodeError:
            return  # reported by the judge of wire types; gates are not judged
        self.capabilities = {"agent": agent, "client": client}

    def on_notification(self, note: Notification) -> None:
        """Apply a notification."""
        self.notification_counts[note.sender] += 1
        if note.method == "$/cancel_request" and is_object(note.params):
            call = self.find_request(note.sender, note.params.get("requestId"))
            if call is not None and call.cancelled is None:
                call.cancelled = note.frame
            return
        if note.session_id is None:
            return
        if note.method == "session/cancel" and note.sender == "client":
            session = self.find_session(note.session_id)
            if session is not None and session.turn is not None and not session.turn.cancelled:
                session.turn.cancelled = note.frame
                asked = self.unanswered("agent", "session/request_permission", session.id)
                session.turn.permission_pending_at_cancel = bool(asked)
        elif note.method == "session/update" and note.sender == "agent":
            session = self.find_session(note.session_id)
            if session is None:
                if not self.is_opening_session:
                    return
                session = self._session_for(note.session_id)
            self._apply_update(session, note)

    def _apply_update(self, session: Session, note: Notification) -> None:
        update = update_of(note)
        match update.get("sessionUpdate"):
            case "tool_call" | "tool_call_update":
                self._apply_tool_call(session, update, note.frame)
            case "terminal_update":
                self._apply_fields(session.terminals, update, "terminalId", note.frame)
            case "terminal_output_chunk":
                new_fields = {"terminalId": update.get("terminalId")}
                self._apply_fields(session.terminals, new_fields, "terminalId", note.frame)
            case "tool_call_content_chunk":
                new_fields = {"toolCallId": update.get("toolCallId")}
                self._apply_fields(session.tools, new_fields, "toolCallId", note.frame)
            case "state_update":
                session.state = str(update.get("state"))
                session.has_been_running |= session.state in ("running", "requires_action")
                background = update.get("background")
                session.reports_background |= is_array(background)
                session.background = background if is_array(background) else []
            case "config_option_update" if is_array(update.get("configOptions")):
                session.options = update["configOptions"]
            case "subagent_update" if isinstance(update.get("sessionId"), str):
                child = self._session_for(update["sessionId"])
                child.parent_id = session.id
                if "capabilities" in update:
                    capabilities = update["capabilities"]
                    child.is_cancellable = is_object(capabilities) and is_object(
                        capabilities.get("cancel")
                    )
            case _:
                pass

    def _apply_tool_call(self, session: Session, new_fields: dict[str, Any], frame: Frame) -> None:
        known = str(new_fields.get("toolCallId")) in session.tools
        entity = self._apply_fields(session.tools, new_fields, "toolCallId", frame)
        if entity is not None and session.turn is not None and not known:
            entity.turn = session.turn
            session.turn.tools.add(new_fields["toolCallId"])

    def _apply_fields(
        self,
        entities: dict[str, ObservedEntity],
        new_fields: dict[str, Any],
        key: str,
        frame: Frame,
    ) -> ObservedEntity | None:
        ident = new_fields.get(key)
        if not isinstance(ident, str):
            return None
        entity = entities.get(ident)
        if entity is None:
            entity = entities[ident] = ObservedEntity(frame, frame)
        entity.last = frame
        # In v1 null keeps the value; in v2 it clears it, which is the same as null here.
        keep_null = self.version != 1
        new = {name: value for name, value in new_fields.items() if keep_null or value is not None}
        entity.fields.update(new)
        return entity

    def _session_for(self, ident: str) -> Session:
        return self.sessions.setdefault(ident, Session(ident))


def update_of(note: Notification) -> dict[str, Any]:
    """Return the update of a `session/update`, or an empty object."""
    update = note.params.get("update") if is_object(note.params) else None
    return update if is_object(update) else {}


@cache
def methods(version: int) -> tuple[Method, ...]:
    """Return the method table of a version, with the methods of extensions."""
    load_extensions()
    added = _added.get(version, [])
    names = {(method.name, method.is_request) for method in added}
    base = V1 if version == 1 else V2
    return (*(m for m in base if (m.name, m.is_request) not in names), *added)


@cache
def _initialize(version: int) -> Method:
    return next(method for method in methods(version) if method.name == "initialize")


_added: dict[int, list[Method]] = {}


def add_methods(more: Mapping[int, Iterable[Method]]) -> None:
    """Add methods of an extension, by protocol version; they replace those of the same name."""
    for version, of_version in more.items():
        _added.setdefault(version, []).extend(of_version)
    methods.cache_clear()
    _initialize.cache_clear()


def id_key(ident: Any) -> tuple[type, Any]:
    """Return the key by which ids match: JSON type and value (R-GEN-06); 1.0 is 1."""
    if isinstance(ident, float) and ident.is_integer():
        ident = int(ident)
    if isinstance(ident, str | int | float | None):
        return type(ident), ident
    return object, repr(ident)  # not allowed by the protocol
