"""Permission requests, and the effect of their responses."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.judges.base import Judge
from accord_conformance.judges.paths import items
from accord_conformance.judges.turns import outcome_of
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.strict_types import format_value

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
