"""Next edit suggestions, an optional family of version 1."""

from __future__ import annotations

from typing import Any, ClassVar

from accord.rules.gates import is_open
from accord.text.lenient_json import is_array, is_object
from accord_conformance.judges.base import Judge
from accord_conformance.judges.paths import items
from accord_conformance.judges.turns import NOTICED_S
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.strict_types import format_value

_CONTEXT = {
    "recentFiles": "recent_files",
    "relatedSnippets": "related_snippets",
    "editHistory": "edit_history",
    "userActions": "user_actions",
    "openFiles": "open_files",
    "diagnostics": "diagnostics",
}
_KINDS = {"jump": "jump", "rename": "rename", "searchAndReplace": "search_and_replace"}
_ENCODINGS = ("utf-16", "utf-32", "utf-8")
_FAMILY = ("nes/", "document/")


class Nes(Judge):
    """The rules of NES, except those that a wrong field breaks."""

    rules: ClassVar[tuple[str, ...]] = (
        "R-NES-01",
        "R-NES-02",
        "R-NES-04",
        "R-NES-06",
        "R-NES-07",
        "R-NES-09",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._started: set[str] = set()
        self._closed: dict[str, Request] = {}

    def on_request(self, call: Request) -> None:
        if call.sender != "client" or self.state.version != 1:
            return
        self._named(call)
        if call.method == "nes/suggest" and is_object(call.params):
            self._context(call, call.params.get("context"))

    def on_notification(self, note: Notification) -> None:
        if note.sender != "client" or self.state.version != 1:
            return
        self._named(note)
        if note.method == "document/didChange" and is_object(note.params):
            self._changed(note, items(note.params, "contentChanges"))

    def on_response(self, call: Request) -> None:
        if call.sender != "client":
            return
        result: dict[str, Any] = call.result if is_object(call.result) else {}
        match call.method:
            case "initialize":
                self._encoding(call, result)
            case "nes/start" if isinstance(result.get("sessionId"), str):
                self._started.add(result["sessionId"])
                self._closed.pop(result["sessionId"], None)
            case "nes/close" if call.ok and call.session_id is not None:
                self._closed[call.session_id] = call
            case "nes/suggest" if self.state.version == 1:
                suggestions = items(result, "suggestions")
                self._kinds(call, suggestions)
                self._after_close(call, bool(suggestions))
            case _:
                pass

    def _named(self, seen: Request | Notification) -> None:
        """An id may name both a chat and an NES session; one that only a chat has is wrong here."""
        ident = seen.session_id
        if ident is None or not seen.method.startswith(_FAMILY):
            return
        own = ident in self._started
        if own or (
            self.state.find_session(ident) and not self.state.unanswered("client", "nes/start")
        ):
            self.judge(
                "R-NES-02",
                own,
                seen,
                expected="an id that nes/start returned",
                got=f"{format_value(ident)}, which is a chat session",
            )

    def _context(self, call: Request, context: Any) -> None:
        if not is_object(context) or not self._offers("agent.nes"):
            return
        for key, name in _CONTEXT.items():
            if context.get(key):
                self.judge(
                    "R-NES-01",
                    self._offers(f"agent.nes.context.{name}"),
                    self.state.initialized,
                    call,
                    expected=f"{key} only if the agent declared nes.context.{key}",
                    got=f"{key} without it",
                    by="client",
                )

    def _changed(self, note: Notification, changes: list[dict[str, Any]]) -> None:
        path = ("nes", "events", "document", "did_change", "sync_kind")
        kind: Any = self.state.capabilities["agent"]
        for name in path:
            kind = getattr(kind, name, None)
        ranges = [change.get("range") is not None for change in changes]
        if kind == "full":
            self.judge(
                "R-NES-06",
                not any(ranges),
                self.state.initialized,
                note,
                expected="the whole text without a range, as the agent's syncKind is full",
                got="a range",
            )
        elif kind == "incremental" and ranges and all(ranges):
            self.judge("R-NES-06", True)  # a change without range replaces all, in either kind

    def _encoding(self, call: Request, result: dict[str, Any]) -> None:
        params = call.params if is_object(call.params) else {}
        agent, client = result.get("agentCapabilities"), params.get("clientCapabilities")
        if result.get("protocolVersion") != 1 or not is_object(agent):
            return
        picked = agent.get("positionEncoding")
        if picked not in _ENCODINGS or (client is None and "capabilities" in params):
            return
        offered = client.get("positionEncodings") if is_object(client) else None
        known = offered if is_array(offered) else []
        self.judge(
            "R-NES-04",
            picked == "utf-16" or picked in known,
            call,
            expected=f"utf-16, or one of {format_value(known)}",
            got=format_value(picked),
            by="agent",
        )

    def _kinds(self, call: Request, suggestions: list[dict[str, Any]]) -> None:
        if self.state.capabilities["client"] is None:
            return
        for suggestion in suggestions:
            kind = suggestion.get("kind")
            if not isinstance(kind, str) or kind not in ("edit", *_KINDS):
                continue
            self.judge(
                "R-NES-07",
                kind == "edit" or self._offers(f"client.nes.{_KINDS[kind]}"),
                self.state.initialized,
                call,
                expected="an edit, or a kind that the client advertised",
                got=format_value(kind),
            )

    def _after_close(self, call: Request, suggests: bool) -> None:
        closed = self._closed.get(call.session_id or "")
        if closed is None or closed.response is None or call.response is None:
            return
        asked_later = call.frame.number > closed.response.frame.number
        late = call.response.frame.time - closed.response.frame.time >= NOTICED_S
        if suggests and not asked_later and not late:
            return  # it may have been done when the close came
        self.judge(
            "R-NES-09",
            not suggests,
            closed,
            call,
            expected="no suggestions from a closed session",
            got="suggestions",
        )

    def _offers(self, gate: str) -> bool:
        return is_open(gate, self.state.capabilities)
