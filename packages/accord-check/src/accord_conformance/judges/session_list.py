"""Listing, deleting and archiving sessions."""

from __future__ import annotations

import posixpath
from typing import Any

from accord.rules.gates import is_open
from accord.text.lenient_json import is_object
from accord_conformance.judges.base import Judge
from accord_conformance.judges.paths import items
from accord_conformance.traffic.message import Request
from accord_conformance.traffic.strict_types import format_value

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
