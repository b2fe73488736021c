"""Finds open sessions, modes and ids in a recording, for the fields of forms."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_inspector.form_defaults import Suggestions
from accord_inspector.inspection import Inspection
from accord_inspector.messages import Messages

_ROWS = 3000  # that are read, from the end
_VALUES = 20  # of a field
_OPENING = frozenset(("session/new", "session/load", "session/resume", "session/fork"))
_CLOSING = frozenset(("session/close", "session/delete"))
_UPDATES = frozenset(("toolCallId", "terminalId", "messageId", "planId"))


def facts_of(inspection: Inspection) -> Suggestions:
    """Return the values that the agent would accept, if its last messages show them."""
    messages = inspection.messages()
    found = _Facts()
    for n in range(len(messages) - 1, max(len(messages) - _ROWS, 0) - 1, -1):
        found.add(messages, n)
    facts = Suggestions(sessions=found.sessions, cwd=found.cwd or str(Path.cwd()))
    facts.fields = found.fields
    return facts


class _Facts:
    def __init__(self) -> None:
        self.sessions: list[str] = []
        self.cwd = ""
        self.fields: dict[str, list[str]] = {}
        self._closed: set[str] = set()

    def add(self, messages: Messages, n: int) -> None:
        """Add a message that came before all others so far."""
        row = messages.row(n)
        if row.kind == "request":
            self._request(messages, n, row.method, row.session)
        elif row.kind == "response" and not row.is_error and row.pair is not None:
            self._response(messages, n, messages.row(row.pair).method)
        elif row.kind == "notification" and row.method == "session/update":
            self._update(messages.record(n).value())

    def _request(self, messages: Messages, n: int, method: str, session: str | None) -> None:
        if method in _CLOSING and session is not None:
            self._closed.add(session)
        elif method in _OPENING:
            self._session(session)
            value = messages.record(n).value()
            cwd = value.get("cwd") if is_object(value) else None
            if isinstance(cwd, str):
                self.cwd = self.cwd or cwd

    def _response(self, messages: Messages, n: int, method: str) -> None:
        if method not in _OPENING and method != "initialize" and method != "terminal/create":
            return
        value = messages.record(n).value()
        if not is_object(value):
            return
        self._session(value.get("sessionId"))
        self._put("terminalId", value.get("terminalId"))
        modes = value.get("modes")
        for mode in _objects(modes.get("availableModes") if is_object(modes) else None):
            self._put("modeId", mode.get("id"))
        for option in _objects(value.get("configOptions")):
            self._put("configId", option.get("configId", option.get("id")))
            for choice in _objects(option.get("options")):
                self._put("value", choice.get("value"))
        for auth in _objects(value.get("authMethods")):
            self._put("methodId", auth.get("id", auth.get("methodId")))

    def _update(self, value: Any) -> None:
        update = value.get("update") if is_object(value) else None
        if is_object(update):
            for name in _UPDATES & update.keys():
                self._put(name, update[name])

    def _session(self, session: Any) -> None:
        if (
            isinstance(session, str)
            and session not in self._closed
            and session not in self.sessions
            and len(self.sessions) < _VALUES
        ):
            self.sessions.append(session)

    def _put(self, name: str, value: Any) -> None:
        values = self.fields.setdefault(name, [])
        if isinstance(value, str) and value not in values and len(values) < _VALUES:
            values.append(value)


def _objects(value: Any) -> Iterable[dict[str, Any]]:
    return [item for item in value if is_object(item)] if is_array(value) else ()
