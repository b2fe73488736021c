"""Modes, config options and slash commands."""

from __future__ import annotations

import re
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.judges.base import Evidence, Judge
from accord_conformance.judges.paths import items
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.observed_session import Session
from accord_conformance.traffic.strict_types import format_value

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
