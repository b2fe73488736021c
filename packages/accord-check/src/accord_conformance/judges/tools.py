"""Judges of tool calls: their life, diffs, cancellation, and the permission to run them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.judges.base import Judge, is_absolute, items
from accord_conformance.judges.turns import outcome_of
from accord_conformance.traffic.connection_state import ObservedEntity, Session, update_of
from accord_conformance.traffic.message import Notification, Request, format_value

# Tool calls, diffs, and the cancellation of a tool call.

# Messages of both sides may cross.
_CROSSING_S = 1.0
_FINAL = ("completed", "failed", "cancelled")
_BEGUN = ("pending", "in_progress", "paused")
_PATH_LINE = re.compile(r"(?:---|\+\+\+|rename from|rename to|copy from|copy to) (.*)")


class Tools(Judge):
    """R-TOOL and R-TCAN."""

    rules = (
        "R-TOOL-01",
        "R-TOOL-02",
        "R-TOOL-09",
        "R-TOOL-19",
        "R-TOOL-21",
        "R-TOOL-24",
        "R-DTERM-01",
        "R-TCAN-01",
        "R-TCAN-03",
        "R-TCAN-05",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._announced: dict[tuple[str, str], Notification] = {}  # by `tool_call`
        self._shown: set[tuple[str, str]] = set()  # client terminals that tool calls show
        self._released: dict[tuple[str, str], Request] = {}
        self._cancellable: dict[
            int, ObservedEntity
        ] = {}  # that were cancellable at some time, by identity
        self._ended: dict[tuple[str, str], Notification] = {}  # the message that ended a tool call
        self._prompted: dict[str, Request] = {}  # the last prompt, by session

    def on_request(self, call: Request) -> None:
        session = self.state.find_session(call.session_id)
        if session is None or not is_object(call.params):
            return
        match call.method:
            case "session/load" | "session/resume":
                # A replay reports them again.
                replayed = call.method == "session/load"
                for open_calls in (self._announced, self._ended) if replayed else (self._ended,):
                    for key in [key for key in open_calls if key[0] == session.id]:
                        del open_calls[key]
            case "session/prompt":
                self._prompted[session.id] = call
            case "terminal/release":
                key = (session.id, str(call.params.get("terminalId")))
                self._released.setdefault(key, call)
            case "tool_call/cancel":
                self._cancel(session, session.tools.get(str(call.params.get("toolCallId"))), call)
            case "terminal/cancel":
                self._cancel(
                    session, session.terminals.get(str(call.params.get("terminalId"))), call
                )
            case "session/request_permission":
                subject = call.params.get("subject")
                tool = (subject if is_object(subject) else call.params).get("toolCall")
                if is_object(tool):
                    self._first(session, tool, call)
                    self._again(session, tool, call)
            case _:
                pass

    def _cancel(self, session: Session, entity: ObservedEntity | None, call: Request) -> None:
        if session.setup is None or session.setup.method != "session/new":
            return
        withdrawn = (
            entity is not None and not entity.cancellable and id(entity) in self._cancellable
        )
        if withdrawn and entity and call.frame.time - entity.last.time < _CROSSING_S:
            return
        self.judge(
            "R-TCAN-01",
            entity is not None and entity.cancellable,
            entity.last if entity else None,
            call,
            expected="only tool calls and terminals that advertise `capabilities.cancel`",
            got=format_value(call.params),
        )

    def on_response(self, call: Request) -> None:
        if call.method in ("tool_call/cancel", "terminal/cancel") and not call.ok:
            self.judge(
                "R-TCAN-05",
                call.code == -32602,
                call,
                expected="-32602, because it cannot be cancelled",
                got=format_value(call.code),
                # The schema names -32602 for an unknown call, but not for an agent without calls.
                authority="sdk" if call.code == -32601 else None,
            )

    def on_notification(self, note: Notification) -> None:
        session = self.state.find_session(note.session_id)
        if note.method != "session/update" or session is None:
            return
        self._remember(session)
        update = update_of(note)
        if update.get("sessionUpdate") == "terminal_update":
            self._reused(session, update, note)
        kind, tool = update.get("sessionUpdate"), update.get("toolCallId")
        if not isinstance(tool, str):
            return
        if kind == "tool_call":
            self._new(session, tool, note)
        elif kind == "tool_call_update" and self.state.version == 1:
            self._known(session, tool, note)
            self._again(session, update, note)
        elif kind == "tool_call_update":
            self._first(session, update, note)
            self._again(session, update, note)
        if kind in ("tool_call", "tool_call_update") and update.get("status") in _FINAL:
            self._ended.setdefault((session.id, tool), note)
        content = items(update, "content")
        if kind == "tool_call_content_chunk" and is_object(update.get("content")):
            content = [update["content"]]
        for item in content:
            if item.get("type") == "terminal" and self.state.version == 1:
                self._terminal(session, str(item.get("terminalId")), note)
            elif item.get("type") == "diff" and is_object(item.get("patch")):
                self._patch(item, item["patch"], note)

    def _new(self, session: Session, tool: str, note: Notification) -> None:
        if self.state.version != 1:
            return
        earlier = self._announced.get((session.id, tool))
        self.judge(
            "R-TOOL-02",
            earlier is None,
            earlier,
            note,
            expected="an id that no other tool call of the session has",
            got=format_value(tool),
            by="agent",
        )
        self._announced[session.id, tool] = note
        self._ended.pop((session.id, tool), None)

    def _again(
        self, session: Session, report: dict[str, Any], seen: Notification | Request
    ) -> None:
        """Judge an id that is used again after its call ended in an earlier turn."""
        key = (session.id, str(report.get("toolCallId")))
        prompt, ended = self._prompted.get(session.id), self._ended.get(key)
        later = prompt and ended and ended.frame.number < prompt.frame.number
        if ended and later and _begins(report, session.tools.get(key[1])):
            self._ended.pop(key)
            self.judge(
                "R-TOOL-02",
                False,
                ended,
                prompt,
                seen,
                expected="an id that no other tool call of the session has",
                got=f"{format_value(key[1])} again, for a call that began after that",
                by="agent",
            )
        elif key[1] not in session.tools and self.state.version == 2:
            self.judge("R-TOOL-02", True, by="agent")

    def _known(self, session: Session, tool: str, note: Notification) -> None:
        if session.setup is not None and session.setup.method == "session/resume":
            return  # it may have been reported before
        self.judge(
            "R-TOOL-01",
            tool in session.tools,
            note,
            expected=f"a tool_call for {format_value(tool)} before its updates",
            got="none",
        )

    def _first(
        self, session: Session, report: dict[str, Any], seen: Notification | Request
    ) -> None:
        if str(report.get("toolCallId")) in session.tools or self.state.version != 2:
            return
        if session.setup is not None and session.setup.method == "session/resume":
            return
        self.judge(
            "R-TOOL-09",
            isinstance(report.get("title"), str),
            seen,
            expected="`title` in the first report of a tool call",
            got=format_value(report),
        )

    def _terminal(self, session: Session, terminal: str, note: Notification) -> None:
        key = (session.id, terminal)
        if key not in self._shown:
            self.judge(
                "R-TOOL-19",
                key not in self._released,
                self._released.get(key),
                note,
                expected="a terminal that has not been released",
                got=format_value(terminal),
            )
        self._shown.add(key)

    def _reused(self, session: Session, update: dict[str, Any], note: Notification) -> None:
        known = session.terminals.get(str(update.get("terminalId")))
        command = update.get("command")
        if known is None or not isinstance(command, str):
            return
        before = known.fields.get("command")
        again = is_object(known.fields.get("exitStatus")) and before not in (None, command)
        self.judge(
            "R-DTERM-01",
            not again,
            known.last,
            note,
            expected="another terminal for another command",
            got=f"{format_value(command)} in the terminal of {format_value(before)}",
        )

    def _patch(self, diff: dict[str, Any], patch: dict[str, Any], note: Notification) -> None:
        text = patch.get("text")
        if patch.get("format") != "git_patch" or not isinstance(text, str):
            return
        wrong = "" if text.startswith("diff --git ") else text.partition("\n")[0]
        named = list(_paths_of(text))
        for path in named:
            if path != "/dev/null" and not path.startswith('"') and not is_absolute(path):
                wrong = wrong or path
        self.judge(
            "R-TOOL-24",
            not wrong,
            note,
            expected="`diff --git` sections with absolute paths",
            got=format_value(wrong),
        )
        if wrong:
            return
        paths = [change.get("path") for change in items(diff, "changes")]
        lost = [path for path in paths if isinstance(path, str) and path not in text]
        self.judge(
            "R-TOOL-21",
            not lost or '"' in text,  # quoted as git does
            note,
            expected="the paths of `changes` in the patch",
            got=f"{format_value(lost)} only in `changes`",
        )

    def _remember(self, session: Session) -> None:
        for entities in (session.tools, session.terminals):
            for entity in entities.values():
                if entity.cancellable:
                    self._cancellable[id(entity)] = entity

    def on_end(self) -> None:
        for session in self.state.sessions.values():
            self._remember(session)
        for entity in self._cancellable.values():
            ended = entity.fields.get("status") in _FINAL
            ended = ended or is_object(entity.fields.get("exitStatus"))
            if ended:
                self.judge(
                    "R-TCAN-03",
                    not entity.cancellable,
                    entity.last,
                    expected="no `capabilities.cancel` after it has ended",
                    got="`capabilities.cancel` still present",
                )


def _begins(report: dict[str, Any], known: ObservedEntity | None) -> bool:
    """Return whether a report for an ended call begins another call."""
    if report.get("status") in _BEGUN:
        return True
    before = known.fields.get("rawInput") if known else None
    return None not in (before, report.get("rawInput")) and before != report["rawInput"]


def _paths_of(text: str) -> Iterator[str]:
    """Yield the paths in the headers of a git patch, without the hunks."""
    in_header = False
    for line in text.splitlines():
        if line.startswith("diff --git "):
            in_header = True
        elif line.startswith("@@"):
            in_header = False
        elif in_header and (found := _PATH_LINE.fullmatch(line.rstrip("\t"))):
            yield found[1]


# Permission requests, and the effect of their responses.

_ASK = "session/request_permission"
_DANGEROUS = ("edit", "delete", "execute")


class Permissions(Judge):
    """R-PERM."""

    rules = ("R-PERM-04", "R-PERM-08", "R-PERM-17", "R-PERM-18", "R-PERM-19", "R-PERM-20")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._refused: dict[tuple[str, str], Request] = {}  # tool calls, by session

    def on_request(self, call: Request) -> None:
        if call.method != _ASK or not is_object(call.params):
            return
        self._refused.pop(_tool_of(call), None)  # another request for the same call
        options = items(call.params, "options")
        self.judge("R-PERM-08", bool(options), call, expected="at least one option", got="none")
        ids = [repr(option.get("optionId")) for option in options]
        self.judge(
            "R-PERM-17",
            len(ids) == len(set(ids)),
            call,
            expected="unique option ids",
            got=format_value(options),
        )
        self._judge_what_is_shown(call)

    def _judge_what_is_shown(self, call: Request) -> None:
        """Judge that a user sees what an edit, a deletion or a command would do."""
        tool = _tool_call_of(call)
        session = self.state.find_session(call.session_id)
        known = session.tools.get(str(tool.get("toolCallId"))) if session is not None else None
        fields = {**(known.fields if known is not None else {}), **tool}
        if fields.get("kind") not in _DANGEROUS:
            return
        shown = fields.get("content"), fields.get("rawInput")
        self.judge(
            "R-PERM-20",
            any(value not in (None, [], {}, "") for value in shown),
            call,
            expected=f"`content` or `rawInput` for a tool call of kind {fields['kind']}",
            got="neither",
        )

    def on_response(self, call: Request) -> None:
        if call.method != _ASK or not is_object(call.params):
            return
        outcome = outcome_of(call)
        if call.cancelled is not None:
            self.judge(
                "R-PERM-19",
                call.ok,
                call.cancelled,
                call,
                expected="the outcome cancelled for a request that the agent cancelled",
                got=f"error {format_value(call.code)}",
            )
        if outcome == "selected":
            chosen = call.result["outcome"].get("optionId")
            offered = [option.get("optionId") for option in items(call.params, "options")]
            self.judge(
                "R-PERM-04",
                chosen in offered,
                call,
                expected=f"one of {format_value(offered)}",
                got=format_value(chosen),
            )
        if outcome == "cancelled" and self.state.version == 2:
            self.judge("R-PERM-18", True)
            self._refused[_tool_of(call)] = call

    def on_notification(self, note: Notification) -> None:
        update = update_of(note)
        if note.method != "session/update" or not self._refused:
            return
        key = (note.session_id or "", str(update.get("toolCallId")))
        refused = self._refused.get(key)
        if refused is not None and update.get("status") in ("in_progress", "completed"):
            self.judge(
                "R-PERM-18",
                False,
                refused,
                note,
                expected="no work on a tool call that was not allowed",
                got=f"the status {update.get('status')}",
            )


def _tool_of(call: Request) -> tuple[str, str]:
    """Return the session and the tool call of a request of version 2."""
    subject = call.params.get("subject")
    tool: Any = subject.get("toolCall") if is_object(subject) else None
    return call.session_id or "", str(tool.get("toolCallId") if is_object(tool) else None)


def _tool_call_of(call: Request) -> dict[str, Any]:
    """Return the tool call in a request, in the shape of either version."""
    subject = call.params.get("subject")
    tool = subject.get("toolCall") if is_object(subject) else call.params.get("toolCall")
    return tool if is_object(tool) else {}
