"""Judges of sessions: their life, their list, directories, modes and options, system prompts."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from accord.rules.gates import is_open
from accord.text.lenient_json import is_array, is_object
from accord.v2.session import ReplayFromStart
from accord_conformance.judges.base import Evidence, Judge, is_absolute, items
from accord_conformance.traffic.connection_state import SETUP_METHODS, Session, update_of
from accord_conformance.traffic.message import Notification, Request, find_problems, format_value

# Sessions: created, loaded, resumed, closed.

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


# Listing, deleting and archiving sessions.

_FILTERS = (None, "exclude", "include", "only")


class SessionList(Judge):
    """R-LIST and R-ARCH, and the directories of sessions."""

    rules = (
        "R-LIST-03",
        "R-LIST-05",
        "R-LIST-13",
        "R-SESS-05",
        "R-ARCH-02",
        "R-ARCH-03",
        "R-ARCH-07",
        "R-ARCH-09",
        "R-ARCH-10",
        "R-ARCH-11",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._cursors: dict[str, Any] = {}  # from the agent, with the filter of the request
        self._deleted: dict[str, Request] = {}
        self._archived: dict[str, Request] = {}
        self._works_in: dict[str, tuple[str, Request]] = {}  # according to lists

    def on_request(self, call: Request) -> None:
        if call.sender != "client" or not is_object(call.params):
            return
        cursor = call.params.get("cursor")
        if call.method == "session/list" and isinstance(cursor, str):
            known = cursor in self._cursors
            self.judge(
                "R-LIST-05",
                known,
                call,
                expected="a cursor that the agent returned on this connection, unchanged",
                got=format_value(cursor),
            )
            wanted = call.params.get("archived")
            if known and (wanted is not None or self._cursors[cursor] is not None):
                self.judge(
                    "R-ARCH-10",
                    wanted == self._cursors[cursor],
                    call,
                    expected=f"the filter {format_value(self._cursors[cursor])} again",
                    got=format_value(wanted),
                )
        if call.method in ("session/load", "session/resume"):
            self._works_in.pop(call.session_id or "", None)
        if call.method in ("session/load", "session/resume") and self._archived:
            ident = call.session_id
            self.judge(
                "R-ARCH-07",
                ident not in self._archived,
                self._archived.get(ident or ""),
                call,
                expected="`session/unarchive` before the session is opened",
                got=call.method,
            )

    def on_response(self, call: Request) -> None:
        if call.sender != "client":
            return
        ident = call.session_id or ""
        match call.method:
            case "initialize" if call.ok:
                self._initialized(call)
            case "session/list":
                self._listed(call)
            case "session/delete" if call.ok:
                self._deleted[ident] = call
            case "session/archive" if call.ok:
                self._archived[ident] = call
            case "session/unarchive" if call.ok:
                self._archived.pop(ident, None)
            case "session/new" | "session/fork" if is_object(call.result):
                self._deleted.pop(str(call.result.get("sessionId")), None)
            case _:
                pass

    def _initialized(self, call: Request) -> None:
        result = call.result if is_object(call.result) else {}
        capabilities = result.get("agentCapabilities")
        session = capabilities.get("sessionCapabilities") if is_object(capabilities) else None
        if is_object(session) and is_object(session.get("archive")):
            self.judge(
                "R-ARCH-02",
                is_object(session.get("list")),
                call,
                expected="the capability `list` in addition to `archive`",
                got="`archive` without `list`",
            )

    def _listed(self, call: Request) -> None:
        params: dict[str, Any] = call.params if is_object(call.params) else {}
        wanted = params.get("archived")
        if wanted not in _FILTERS:
            self.judge(
                "R-ARCH-09",
                call.code == -32602,
                call,
                expected="-32602 for an unknown filter",
                got="a result" if call.ok else format_value(call.code),
            )
        if not call.ok or not is_object(call.result):
            return
        cursor = call.result.get("nextCursor")
        if isinstance(cursor, str):
            self._cursors[cursor] = wanted
        sessions = items(call.result, "sessions")
        self._of_directory(params.get("cwd"), sessions, call)
        self._gone(sessions, wanted, call)
        self._stays(sessions, call)
        if self._offers_archive():
            for session in sessions:
                self.judge(
                    "R-ARCH-11",
                    isinstance(session.get("archived"), bool),
                    call,
                    expected="`archived` in each session of the list",
                    got=format_value(session),
                )

    def _offers_archive(self) -> bool:
        capabilities = self.state.capabilities
        if None in capabilities.values():
            return False
        path = "session" if self.state.version == 2 else "session_capabilities"
        return is_open(f"agent.{path}.archive", capabilities)

    def _of_directory(self, cwd: Any, sessions: list[dict[str, Any]], call: Request) -> None:
        if not isinstance(cwd, str):
            return
        for session in sessions:
            listed = session.get("cwd")
            if isinstance(listed, str):
                self.judge(
                    "R-LIST-03",
                    _may_be_same(cwd, listed),
                    call,
                    expected=f"only sessions of {format_value(cwd)}",
                    got=format_value(listed),
                )

    def _stays(self, sessions: list[dict[str, Any]], call: Request) -> None:
        for session in sessions:
            ident, cwd = session.get("sessionId"), session.get("cwd")
            if not isinstance(ident, str) or not isinstance(cwd, str):
                continue
            before, listed = self._works_in.setdefault(ident, (cwd, call))
            if listed is not call:
                self.judge(
                    "R-SESS-05",
                    _is_same(before, cwd),
                    listed,
                    call,
                    expected=f"{format_value(before)} as the directory of the session, unchanged",
                    got=format_value(cwd),
                )

    def _gone(self, sessions: list[dict[str, Any]], wanted: Any, call: Request) -> None:
        ids = {str(session.get("sessionId")) for session in sessions}
        for ident, deleted in self._deleted.items():
            if deleted.response is not None and deleted.response.frame.number < call.frame.number:
                self.judge(
                    "R-LIST-13",
                    ident not in ids,
                    deleted,
                    call,
                    expected="a list without the deleted session",
                    got=format_value(ident),
                )
        for ident, archived in self._archived.items():
            sent = (
                archived.response is not None and archived.response.frame.number < call.frame.number
            )
            if sent and wanted in (None, "exclude"):
                self.judge(
                    "R-ARCH-03",
                    ident not in ids,
                    archived,
                    call,
                    expected="a list without the archived session",
                    got=format_value(ident),
                )


def _is_same(one: str, other: str) -> bool:
    one, other = (posixpath.normpath(path.replace("\\", "/")).casefold() for path in (one, other))
    return one == other


def _may_be_same(one: str, other: str) -> bool:
    """Return whether two paths may be one directory: an agent may resolve links."""
    ends = [
        posixpath.basename(posixpath.normpath(path.replace("\\", "/"))) for path in (one, other)
    ]
    return ends[0].casefold() == ends[1].casefold()


# Additional directories of a session.


class Directories(Judge):
    """R-DIR."""

    rules = ("R-DIR-06", "R-DIR-11")

    def on_request(self, call: Request) -> None:
        if not _is_setup(call):
            return
        directories = call.params.get("additionalDirectories")
        if is_array(directories) and directories:
            names = [one for one in directories if isinstance(one, str)]
            twice = len(names) != len(set(names)) or call.params.get("cwd") in names
            self.judge(
                "R-DIR-11",
                not twice,
                call,
                expected="each directory once, without `cwd`",
                got=format_value(directories),
            )

    def on_response(self, call: Request) -> None:
        """Judge that the agent refuses a path that is not absolute, and does not omit it."""
        if not _is_setup(call):
            return
        directories = call.params.get("additionalDirectories")
        if directories is None or directories == []:
            return
        valid = is_array(directories) and all(
            isinstance(one, str) and is_absolute(one) for one in directories
        )
        if not valid:
            self.judge(
                "R-DIR-06",
                not call.ok,
                call,
                expected="an error for directories that are not absolute paths",
                got="a result",
            )


def _is_setup(call: Request) -> bool:
    return call.sender == "client" and call.method in SETUP_METHODS and is_object(call.params)


# Modes, config options and slash commands.

_SET = "session/set_config_option"


class Options(Judge):
    """R-CONF, R-MODE and R-CMD."""

    rules = (
        "R-CONF-02",
        "R-CONF-07",
        "R-CONF-11",
        "R-CONF-17",
        "R-CONF-18",
        "R-MODE-02",
        "R-MODE-03",
        "R-CMD-06",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._values: dict[tuple[str, str], set[str]] = {}  # ever reported, by session and option
        self._misfits: list[Request] = []  # set an unknown option

    def on_request(self, call: Request) -> None:
        session = self.state.find_session(call.session_id)
        if call.sender != "client" or session is None or not _is_set_up(session):
            return
        if call.method == "session/set_mode":
            mode = call.params.get("modeId")
            self.judge(
                "R-MODE-02",
                str(mode) in (session.modes or ()),
                call,
                expected="one of `availableModes`",
                got=format_value(mode),
            )
        elif call.method == _SET:
            self._set(session, call)

    def _set(self, session: Session, call: Request) -> None:
        ident, value = call.params.get("configId"), call.params.get("value")
        option = session.option(ident)
        if option is None:
            if session.options is not None and isinstance(ident, str):
                self._misfits.append(call)
            return
        match option.get("type"):
            case "select":
                kept = str(value) in self._values.get((session.id, str(ident)), ())
                expected = "one of the option's values"
            case "boolean":
                kept, expected = isinstance(value, bool), "true or false"
            case _:
                return
        self.judge("R-CONF-07", kept, call, expected=expected, got=format_value(value))

    def on_response(self, call: Request) -> None:
        if call.sender != "client":
            return
        session = self.state.find_session(call.session_id)
        if call.method == _SET and session is not None:
            self._was_set(session, call)
        if is_object(call.result):
            ident = call.result.get("sessionId", call.session_id)
            if isinstance(ident, str):
                self._check_options(ident, call.result, call)

    def _was_set(self, session: Session, call: Request) -> None:
        if session.options:
            self.judge(
                "R-CONF-18",
                call.code != -32601,
                call,
                expected=f"{_SET} is supported, because the session has options",
                got="-32601, unknown method",
            )
        if call in self._misfits:
            self.judge(
                "R-CONF-11",
                call.code == -32602,
                call,
                expected="-32602 for an unknown option",
                got="a result" if call.ok else format_value(call.code),
            )
        elif call.ok and is_object(call.result) and is_array(call.result.get("configOptions")):
            ids = {
                str(option.get("id") or option.get("configId"))
                for option in items(call.result, "configOptions")
            }
            self.judge(
                "R-CONF-02",
                str(call.params.get("configId")) in ids,
                call,
                expected="the complete list, including the option that was set",
                got=format_value(sorted(ids)),
            )

    def on_notification(self, note: Notification) -> None:
        session = self.state.find_session(note.session_id)
        if note.method != "session/update" or session is None:
            return
        update = update_of(note)
        if update.get("sessionUpdate") == "current_mode_update" and session.modes is not None:
            mode = update.get("currentModeId")
            self.judge(
                "R-MODE-03",
                str(mode) in session.modes,
                session.setup,
                note,
                expected="one of `availableModes`",
                got=format_value(mode),
            )
        self._check_options(session.id, update, note)

    def _check_options(self, session_id: str, value: dict[str, Any], seen: Evidence) -> None:
        for option in items(value, "configOptions"):
            if option.get("type") == "select":
                self._select(session_id, option, seen)
        commands = items(value, "availableCommands")
        if commands:
            self._commands(commands, seen)

    def _select(self, session_id: str, option: dict[str, Any], seen: Evidence) -> None:
        values = _values(option)
        ident = str(option.get("id") or option.get("configId"))
        self._values.setdefault((session_id, ident), set()).update(values)
        current = option.get("currentValue")
        if not values or not isinstance(current, str):
            return  # the judge of wire types reports it
        self.judge(
            "R-CONF-17",
            len(values) == len(set(values)) and current in values,
            seen,
            expected="unique values, including `currentValue`",
            got=f"{format_value(current)} and {format_value(values)}",
        )

    def _commands(self, commands: list[dict[str, Any]], seen: Evidence) -> None:
        names = [name for command in commands if isinstance(name := command.get("name"), str)]
        bad = [name for name in names if name.startswith("/") or re.search(r"\s", name)]
        twice = [name for name in names if names.count(name) > 1]
        self.judge(
            "R-CMD-06",
            not bad and not twice,
            seen,
            expected="unique names without leading slash and white space",
            got=format_value(bad or twice),
        )


def _is_set_up(session: Session) -> bool:
    return session.setup is not None and session.setup.ok


def _values(option: dict[str, Any]) -> list[str]:
    """Return the values of a select option, including those in groups."""
    values: list[str] = []
    for entry in items(option, "options"):
        choices = items(entry, "options") or [entry]
        values += [value for choice in choices if isinstance(value := choice.get("value"), str)]
    return values


# System prompts of a session.


class SystemPrompt(Judge):
    """R-SYSP."""

    rules = ("R-SYSP-05",)

    def on_request(self, call: Request) -> None:
        if call.sender != "client" or call.method not in SETUP_METHODS:
            return
        prompt = call.params.get("systemPrompt") if is_object(call.params) else None
        if is_object(prompt) and is_array(prompt.get("content")):
            kinds = [block.get("type") for block in items(prompt, "content")]
            self.judge(
                "R-SYSP-05",
                bool(kinds) and all(kind == "text" for kind in kinds),
                call,
                expected="text blocks, at least one",
                got=format_value(kinds),
            )
