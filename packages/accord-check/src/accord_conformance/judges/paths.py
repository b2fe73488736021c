"""Paths are absolute, and line numbers start at 1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.judges.base import Evidence, Judge
from accord_conformance.traffic.connection_state import SETUP_METHODS, update_of
from accord_conformance.traffic.frame import Side, other
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.strict_types import format_value

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
