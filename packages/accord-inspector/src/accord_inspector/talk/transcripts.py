"""Builds the transcripts of all sessions from recorded messages, in the order of the recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

from msgspec import UNSET, Struct

from accord.client.events import (
    AgentTerminal,
    CommandsChanged,
    ModeChanged,
    OptionsChanged,
    StateChanged,
    TerminalOutputChunk,
    TitleChanged,
    UserText,
)
from accord.client.events import ContentChunk as ContentEvent
from accord.errors import DecodeError, RequestError
from accord.text import lenient_json
from accord.types.content import ContentBlock
from accord.types.session import TokenUsage
from accord.types.steering import STEERING, outcome_of
from accord_inspector.json_http import json_words
from accord_terminal.conversation import (
    Clock,
    Entry,
    SessionLog,
    Stamp,
    Wire,
    session_of,
    wire_of,
)
from accord_trace.records import Record

CLIENT = "Client"
_OPENING = ("session/new", "session/load", "session/resume", "session/fork")


class _Request(Struct, eq=False):
    """A request that waits for its response."""

    method: str
    params: Any
    session: str | None
    stamp: Stamp
    entry: Entry | None = None
    before: dict[str, Any] | None = None  # of a session that is loaded again


class _Connection:
    """One connection of a recording: its version, and its open requests."""

    def __init__(self) -> None:
        self.wire: Wire = wire_of(1)
        self.requests: dict[tuple[str, bytes], _Request] = {}  # by sender and id
        self.sessions: set[str] = set()


class _Message(NamedTuple):
    """A request or its response, with where it belongs; `value` is the params or the result."""

    connection: _Connection
    request: _Request
    log: SessionLog
    record: Record
    value: dict[str, Any]

    @property
    def params(self) -> dict[str, Any]:
        """The params of the request; empty if they are not an object."""
        given = self.request.params
        return given if lenient_json.is_object(given) else {}


class Transcripts:
    """The sessions of a recording, each with its entries; `add` continues them.

    `is_live` says that the client is in this process, and has one connection at a time. Then the
    output of version 1's terminals is not read from the messages: the client reports it.
    """

    def __init__(self, *, is_live: bool = False) -> None:
        self.clock: Clock = Clock()
        self.sessions: dict[str, SessionLog] = {}
        self._connections: dict[str, _Connection] = {}
        self._only_client: bool | None = None
        self._is_live = is_live

    def add(self, number: int, record: Record) -> None:
        """Add the message with this number."""
        is_clients = CLIENT in (record.sender, record.receiver)
        if self._only_client is None:
            self._only_client = is_clients
        if self._only_client and not is_clients:
            return  # a hop between a proxy and the agent
        connection = self._connections.get(record.conn)
        if connection is None:
            connection = self._connections[record.conn] = _Connection()
        stamp = Stamp(number, record.ts)
        try:
            if record.method == "session/update" and record.type == "notification":
                self._update(connection, record, stamp)
            elif record.type == "request":
                self._request(connection, record, stamp)
            elif record.type == "response":
                self._response(connection, record, stamp)
            elif record.type == "end":
                self._end(connection, record.sender, record.reason, stamp)
        except DecodeError as error:
            self._unreadable(record, stamp, error)

    def _log(self, connection: _Connection, session_id: str, stamp: Stamp) -> SessionLog:
        log = self.sessions.get(session_id)
        if log is None:
            log = SessionLog(session_id, connection.wire, self.clock, stamp)
            self.sessions[session_id] = log
        connection.sessions.add(session_id)
        return log.at(stamp)

    def _update(self, connection: _Connection, record: Record, stamp: Stamp) -> None:
        if record.params is UNSET:
            return
        session_id, update = connection.wire.update(record.params)
        self._log(connection, session_id, stamp).receive(update)

    def _unreadable(self, record: Record, stamp: Stamp, error: DecodeError) -> None:
        """Show a message that does not fit its type, if it belongs to a session."""
        log = self.sessions.get(record.session or "")
        if log is not None:
            method = "" if record.method is UNSET else record.method
            log.at(stamp).add("unreadable", {"method": method, "reason": json_words(str(error))})

    # Requests.

    def _request(self, connection: _Connection, record: Record, stamp: Stamp) -> None:
        assert record.method is not UNSET
        params = record.value()
        session = session_of(params)
        request = _Request(record.method, params, session, stamp)
        if record.id is not UNSET:
            connection.requests[record.sender, bytes(record.id)] = request
        if record.method == "initialize" and self._is_live:
            self._end_others(connection, stamp)
        begin = self._REQUESTS.get(record.method)
        if begin is not None and session is not None and lenient_json.is_object(params):
            log = self._log(connection, session, stamp)
            log.is_opened |= record.dir == "to_agent"
            begin(self, _Message(connection, request, log, record, params))

    def _prompt(self, sent: _Message) -> None:
        if not sent.log.is_running:
            sent.log.begin_turn()
        sent.log.prompted = sent.request.stamp
        sent.log.prompts[sent.record.conn, sent.record.id_text] = sent.request.stamp
        sent.log.touch()
        if sent.connection.wire.echoes_prompts:
            return
        contents = sent.connection.wire.prompt(sent.params.get("prompt"))
        _add_message(sent.log, contents)
        texts = [content for content in contents if isinstance(content, str)]
        sent.log.stream.pending_echo = "".join(texts)
        sent.log.apply(StateChanged(state="running"))

    def _steer(self, sent: _Message) -> None:
        """Add what the user says while a turn runs, which waits for its outcome."""
        contents = sent.connection.wire.prompt(sent.params.get("prompt"))
        sent.request.entry = sent.log.add("steer", {"content": contents, "outcome": None})
        sent.log.touch()

    def _load(self, sent: _Message) -> None:
        replays = sent.request.method == "session/load" or sent.params.get("replayFrom") is not None
        if replays and sent.log.entries:
            sent.request.before = sent.log.restart(sent.connection.wire, sent.request.stamp)

    def _permission(self, sent: _Message) -> None:
        params = sent.request.params
        title, call_id = params.get("title"), None
        subject = params.get("subject")
        details = params.get("toolCall")
        command = None
        if lenient_json.is_object(subject):
            details = subject.get("toolCall")
            call_id, command = subject.get("toolCallId"), subject.get("command")
        if details is not None:
            call_id, call = sent.connection.wire.tool_call(details, sent.log.transcript)
            if call is not None:
                sent.log.apply(call)
            known = sent.log.transcript.tool_call(call_id)
            title = title or ("" if known is None else known.title)
        options = params.get("options")
        sent.request.entry = sent.log.add(
            "permission",
            {
                "title": title,
                "description": params.get("description"),
                "command": command,
                "callId": call_id,
                "options": options if lenient_json.is_array(options) else [],
                "outcome": None,
            },
        )

    def _elicitation(self, sent: _Message) -> None:
        params = sent.request.params
        asked = {key: params.get(key) for key in ("mode", "message", "url")}
        sent.request.entry = sent.log.add("elicitation", {**asked, "outcome": None})

    _REQUESTS: ClassVar[dict[str, Callable[[Transcripts, _Message], None]]] = {
        "session/prompt": _prompt,
        "session/load": _load,
        "session/resume": _load,
        STEERING: _steer,
        "session/request_permission": _permission,
        "elicitation/create": _elicitation,
    }

    # Responses.

    def _response(self, connection: _Connection, record: Record, stamp: Stamp) -> None:
        request = connection.requests.pop((record.receiver, bytes(record.id or b"")), None)
        if request is None:
            return
        value = record.value()
        if request.method == "initialize":
            version = value.get("protocolVersion") if lenient_json.is_object(value) else None
            connection.wire = wire_of(2 if version == 2 else 1)
            return
        if request.entry is not None:
            log = self._log(connection, request.session or "", stamp)
            request.entry.value["outcome"] = {"isError": record.is_error, "value": value}
            log.change(request.entry)
            is_taken = request.method == STEERING and outcome_of(value) == "injected"
            if is_taken and not connection.wire.echoes_prompts:
                _add_message(log, request.entry.value["content"])
            return
        session = session_of(value) or request.session
        if session is None:
            return
        if record.is_error:
            self._failed(connection, request, record, value, stamp)
            return
        finish = self._RESPONSES.get(request.method)
        if finish is not None and lenient_json.is_object(value):
            log = self._log(connection, session, stamp)
            finish(self, _Message(connection, request, log, record, value))

    def _failed(
        self, connection: _Connection, request: _Request, record: Record, value: Any, stamp: Stamp
    ) -> None:
        if request.session is None or (
            request.session not in self.sessions and request.method != "session/prompt"
        ):
            return
        log = self._log(connection, request.session, stamp)
        if request.before is not None:
            log.restore(request.before)
        error = _error(value)
        if request.method == "session/prompt":
            log.prompts.pop((record.conn, record.id_text), None)
            log.stream.pending_echo = ""
            state = StateChanged(state="idle", stop_reason="error", error=error)
            log.transcript.apply(state)
            log.end_turn(state, stamp.seconds - request.stamp.seconds)
        elif not request.method.startswith(("fs/", "terminal/")):
            log.add("error", {"method": request.method, "error": error})

    def _opened(self, sent: _Message) -> None:
        sent.log.wire = sent.connection.wire
        sent.log.is_closed = False
        sent.log.is_opened = True
        cwd = sent.params.get("cwd")
        sent.log.cwd = cwd if isinstance(cwd, str) else sent.log.cwd
        opened = sent.connection.wire.opened(sent.request.method, sent.log.id, sent.value)
        if opened.options is not None:
            sent.log.apply(OptionsChanged(opened.options))
        if opened.commands is not None:
            sent.log.apply(CommandsChanged(opened.commands))
        sent.log.touch()

    def _ended(self, sent: _Message) -> None:
        started = sent.log.prompts.pop((sent.record.conn, sent.record.id_text), None)
        sent.log.touch()
        if sent.connection.wire.echoes_prompts:
            return  # a state ends the turn
        sent.log.stream.pending_echo = ""
        reason = sent.value.get("stopReason")
        state = StateChanged(
            state="idle",
            stop_reason=reason if isinstance(reason, str) else "?",
            token_usage=_token_usage(sent.value.get("usage")),
        )
        sent.log.transcript.apply(state)
        sent.log.end_turn(state, None if started is None else sent.record.ts - started.seconds)

    def _option_set(self, sent: _Message) -> None:
        if lenient_json.is_array(options := sent.value.get("configOptions")):
            earlier = sent.log.transcript.options
            sent.log.apply(OptionsChanged(sent.connection.wire.options(options, earlier)))

    def _mode_set(self, sent: _Message) -> None:
        mode = sent.params.get("modeId")
        if isinstance(mode, str):
            sent.log.apply(ModeChanged(mode))

    def _title_set(self, sent: _Message) -> None:
        if isinstance(title := sent.value.get("title"), str):
            sent.log.apply(TitleChanged(title))

    def _closed(self, sent: _Message) -> None:
        sent.log.is_closed = True
        sent.log.touch()

    # The terminals of version 1.

    def _terminal(self, sent: _Message) -> None:
        if self._is_live or not lenient_json.is_object(sent.request.params):
            return
        params = sent.request.params
        terminal_id = params.get("terminalId", sent.value.get("terminalId"))
        if not isinstance(terminal_id, str):
            return
        known = sent.log.transcript.terminals.get(terminal_id)
        terminal = AgentTerminal(id=terminal_id) if known is None else known.terminal
        command, cwd = terminal.command, terminal.cwd
        status: Any = None
        if sent.request.method == "terminal/create":
            command = _words(params.get("command"), params.get("args"))
            cwd = params["cwd"] if isinstance(params.get("cwd"), str) else sent.log.cwd
        elif sent.request.method == "terminal/output":
            output = sent.value.get("output")
            if isinstance(output, str):
                data = output.encode("utf-8", "replace")
                sent.log.apply(TerminalOutputChunk(terminal_id, data, replaces=True))
            status = sent.value.get("exitStatus")
        else:
            status = sent.value
        code = signal = None
        if has_exited := lenient_json.is_object(status):
            code, signal = status.get("exitCode"), status.get("signal")
        sent.log.apply(
            AgentTerminal(
                id=terminal_id,
                command=command,
                cwd=cwd,
                exited=has_exited or terminal.exited,
                exit_code=code if isinstance(code, int) else terminal.exit_code,
                signal=signal if isinstance(signal, str) else terminal.signal,
            )
        )

    _RESPONSES: ClassVar[dict[str, Callable[[Transcripts, _Message], None]]] = {
        **dict.fromkeys(_OPENING, _opened),
        "session/prompt": _ended,
        "session/set_config_option": _option_set,
        "session/set_mode": _mode_set,
        "session/set_title": _title_set,
        "session/close": _closed,
        "session/delete": _closed,
        "session/archive": _closed,
        "terminal/create": _terminal,
        "terminal/output": _terminal,
        "terminal/wait_for_exit": _terminal,
    }

    # The end of a connection.

    def _end_others(self, started: _Connection, stamp: Stamp) -> None:
        """End the earlier connections of a live agent, which was started again."""
        for connection in self._connections.values():
            if connection is not started:
                self._end(connection, CLIENT, "The agent was started again", stamp)

    def _end(self, connection: _Connection, side: str, reason: str, stamp: Stamp) -> None:
        """End what waits for the other side: it cannot arrive any more."""
        for session_id in connection.sessions:
            log = self.sessions[session_id].at(stamp)
            if log.is_closed:
                continue
            waiting = bool(log.prompts)
            for prompt in log.prompts.values():
                log.at(prompt).add("unanswered", None)
            log.at(stamp).prompts.clear()
            log.stream.pending_echo = ""
            if waiting or log.is_running:
                log.transcript.apply(StateChanged(state="idle"))
            log.is_closed = True
            log.add("connection", {"side": side, "reason": reason})
            log.touch()
        for request in connection.requests.values():
            if request.entry is not None and request.session in self.sessions:
                request.entry.value["outcome"] = {"isError": True, "value": None}
                self.sessions[request.session].change(request.entry)
        connection.requests.clear()
        connection.sessions.clear()


def _add_message(log: SessionLog, contents: Iterable[ContentBlock]) -> None:
    """Add a message of the user, which an agent of version 1 does not repeat."""
    message_id = f"prompt {log.transcript.prompt_count + 1}"
    for content in contents:
        is_text = isinstance(content, str)
        log.apply(
            UserText(content, message_id) if is_text else ContentEvent(content, "user", message_id)
        )


def _error(value: Any) -> RequestError:
    if not lenient_json.is_object(value):
        return RequestError("The agent answered with an error that is not an object")
    code = value.get("code")
    message = value.get("message")
    return RequestError(
        message if isinstance(message, str) else "",
        code=code if isinstance(code, int) else 0,
        data=value.get("data"),
    )


def _token_usage(usage: Any) -> TokenUsage | None:
    if not lenient_json.is_object(usage):
        return None

    def count(name: str) -> Any:
        found = usage.get(name)
        return found if isinstance(found, int) else None

    return TokenUsage(
        total=count("totalTokens") or 0,
        input=count("inputTokens") or 0,
        output=count("outputTokens") or 0,
        thought=count("thoughtTokens"),
        cached_read=count("cachedReadTokens"),
        cached_write=count("cachedWriteTokens"),
    )


def _words(command: Any, args: Any) -> str:
    words = [command, *(args if lenient_json.is_array(args) else ())]
    return " ".join(word for word in words if isinstance(word, str))
