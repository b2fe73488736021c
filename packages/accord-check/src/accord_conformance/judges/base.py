"""The base of all judges: they see all messages in order, and report findings.

A judge names its rules and overrides the methods for the messages that it needs. It sees a message
before `ConnectionState` does, so `self.state` is the state when the message arrived. A response is
in `call.response` already; the request is still open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, ClassVar

from accord.text.lenient_json import is_array, is_object
from accord_conformance.reports.report import Finding
from accord_conformance.rules.manifest import Authority, requirements
from accord_conformance.traffic.connection_state import (
    SETUP_METHODS,
    ConnectionState,
    Turn,
    update_of,
)
from accord_conformance.traffic.message import (
    Frame,
    InvalidFrame,
    Notification,
    RawMessage,
    Request,
    Side,
    format_value,
    other,
)

# Judges.

Evidence = Request | Notification | InvalidFrame | RawMessage | Turn | Frame | None


class Judge:
    """Judges some rules on one connection."""

    rules: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def judged_rules(cls) -> Collection[str]:
        """Return the rules that this judge reports: `rules`, unless extensions add some."""
        return cls.rules

    def __init__(self, state: ConnectionState, report: Callable[[Finding], None]) -> None:
        self.state = state
        self._judged = frozenset(self.judged_rules())
        self._report = report

    def on_invalid_frame(self, broken: InvalidFrame) -> None:
        """Handle a frame that is not a message."""

    def on_message(self, raw: RawMessage) -> None:
        """Handle any message, before the method for its kind is called."""

    def on_unmatched_response(self, raw: RawMessage) -> None:
        """Handle a response without a request."""

    def on_request(self, call: Request) -> None:
        """Handle a request."""

    def on_response(self, call: Request) -> None:
        """Handle the response to a request."""

    def on_notification(self, note: Notification) -> None:
        """Handle a notification."""

    def on_end(self) -> None:
        """Handle the end of the connection."""

    def is_judged(self, sender: Side) -> bool:
        """Return whether to judge what a side sends: the kit does not judge itself."""
        return self.state.judged_side in (None, sender)

    def judge(
        self,
        rule: str,
        passed: bool,
        *seen: Evidence,
        expected: str = "",
        got: str = "",
        by: Side | None = None,
        authority: Authority | None = None,
    ) -> None:
        """Report whether a rule was obeyed, if the rule applies to the agreed version.

        `by` may be left out if the rule is about one side only. `authority` is given if the rule
        itself does not fully cover this finding.
        """
        assert rule in self._judged, f"{type(self).__name__} does not name {rule}"
        requirement = requirements()[rule]
        if self.state.version is not None and self.state.version not in requirement.versions:
            return
        if by is None:
            assert requirement.who in ("agent", "client"), f"{rule} needs `by`"
            by = "agent" if requirement.who == "agent" else "client"
        self._report(
            make_finding(rule, passed, by, *seen, expected=expected, got=got, authority=authority)
        )


def make_finding(
    rule: str,
    passed: bool,
    by: Side,
    *seen: Evidence,
    expected: str = "",
    got: str = "",
    where: str = "",
    authority: Authority | None = None,
) -> Finding:
    """Return a finding, with frames and texts only if the rule was broken."""
    if passed:
        return Finding(rule=rule, passed=True, by=by)
    return Finding(
        rule=rule,
        passed=False,
        by=by,
        expected=expected,
        got=got,
        frames=frames_from(*seen),
        where=where,
        authority=authority,
    )


def frames_from(*seen: Evidence) -> tuple[Frame, ...]:
    """Return the frames of messages, each once and in order."""
    frames = {frame.number: frame for item in seen for frame in _frames_in(item)}
    return tuple(frames[number] for number in sorted(frames))


def _frames_in(seen: Evidence) -> list[Frame]:
    """Return the frames of a message."""
    match seen:
        case None:
            return []
        case Frame():
            return [seen]
        case Turn():
            return _frames_in(seen.request)
        case Request():
            return [seen.frame, *([seen.response.frame] if seen.response else [])]
        case _:
            return [seen.frame]


# Paths are absolute, and line numbers start at 1.

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")

_Path = tuple[str, str, Any]  # rule, where, path


class Paths(Judge):
    """R-GEN-01, and the rules about particular paths."""

    rules = (
        "R-GEN-01",
        "R-GEN-02",
        "R-GEN-15",
        "R-SESS-03",
        "R-DIR-02",
        "R-MCP-10",
        "R-FS-05",
        "R-TOOL-17",
        "R-TOOL-25",
        "R-PERM-11",
        "R-DTERM-04",
    )

    def on_request(self, call: Request) -> None:
        if is_object(call.params):
            self._all(_in_call(call.method, call.params), call.sender, call)
            if call.method == "fs/read_text_file" and "line" in call.params:
                self._line(call.params["line"], call, call.sender)

    def on_notification(self, note: Notification) -> None:
        if note.method == "session/update":
            update = update_of(note)
            self._all(_in_update(update, self.state.version), note.sender, note)
            for location in items(update, "locations"):
                if "line" in location and self.state.version == 1:
                    self._line(location["line"], note, note.sender)

    def on_response(self, call: Request) -> None:
        if call.method == "session/list" and is_object(call.result):
            found = (
                ("R-GEN-01", f"sessions[{index}].cwd", session.get("cwd"))
                for index, session in enumerate(items(call.result, "sessions"))
            )
            self._all(found, other(call.sender), call)

    def _all(self, found: Iterator[_Path], by: Side, seen: Evidence) -> None:
        for rule, where, path in found:
            if not isinstance(path, str):
                continue
            is_uri = bool(_URI.match(path)) and self.state.version == 2
            if is_uri:
                rule = "R-GEN-15"
            else:
                self.judge("R-GEN-15", True, by=by)
            self.judge(
                rule,
                is_absolute(path) and not is_uri,
                seen,
                expected=f"an absolute path at {where}",
                got=format_value(path),
                by=by,
            )

    def _line(self, line: Any, seen: Evidence, by: Side) -> None:
        if isinstance(line, int):
            self.judge(
                "R-GEN-02", line != 0, seen, expected="line numbers that start at 1", got="0", by=by
            )


def is_absolute(path: str) -> bool:
    """Return whether a path is absolute on any system; that of the agent is unknown."""
    return path.startswith(("/", "\\\\")) or bool(_DRIVE.match(path))


def items(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects in a member that is a list."""
    found = value.get(key)
    return [item for item in found if is_object(item)] if is_array(found) else []


def _in_call(method: str, params: dict[str, Any]) -> Iterator[_Path]:
    if method in SETUP_METHODS:
        yield "R-SESS-03", "cwd", params.get("cwd")
        directories = params.get("additionalDirectories")
        for index, path in enumerate(directories if is_array(directories) else ()):
            yield "R-DIR-02", f"additionalDirectories[{index}]", path
        for index, server in enumerate(items(params, "mcpServers")):
            yield "R-MCP-10", f"mcpServers[{index}].command", server.get("command")
    elif method in ("fs/read_text_file", "fs/write_text_file"):
        yield "R-FS-05", "path", params.get("path")
    elif method in ("terminal/create", "session/list"):
        yield "R-GEN-01", "cwd", params.get("cwd")
    elif method == "session/request_permission":
        subject = params.get("subject")
        if is_object(subject) and subject.get("type") == "command":
            yield "R-PERM-11", "subject.cwd", subject.get("cwd")


def _in_update(update: dict[str, Any], version: int | None) -> Iterator[_Path]:
    kind = update.get("sessionUpdate")
    if kind == "terminal_update":
        yield "R-DTERM-04", "update.cwd", update.get("cwd")
    elif kind == "subagent_update":
        yield "R-GEN-01", "update.cwd", update.get("cwd")
    for index, location in enumerate(items(update, "locations")):
        yield "R-GEN-01", f"update.locations[{index}].path", location.get("path")
    content = items(update, "content")
    if kind == "tool_call_content_chunk" and is_object(update.get("content")):
        content = [update["content"]]
    for index, item in enumerate(content):
        if item.get("type") != "diff":
            continue
        if version == 1:
            yield "R-TOOL-17", f"update.content[{index}].path", item.get("path")
        for number, change in enumerate(items(item, "changes")):
            for key in ("oldPath", "path"):
                yield (
                    "R-TOOL-25",
                    f"update.content[{index}].changes[{number}].{key}",
                    change.get(key),
                )
