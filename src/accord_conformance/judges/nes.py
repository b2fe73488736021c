"""Next edit suggestions, an optional family of version 1."""

from __future__ import annotations

from typing import Any

from accord.rules.gates import is_open
from accord.text.lenient_json import is_array, is_object
from accord_conformance.judges.base import Judge
from accord_conformance.judges.paths import items
from accord_conformance.judges.turns import NOTICED_S
from accord_conformance.traffic.message import Call, Note
from accord_conformance.traffic.strict_types import shown

__all__ = ("Nes",)

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
    """R-NES, but for what a wrong field shows."""

    rules = ("R-NES-01", "R-NES-02", "R-NES-04", "R-NES-06", "R-NES-07", "R-NES-09")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._started: set[str] = set()
        self._closed: dict[str, Call] = {}

    def called(self, call: Call) -> None:
        if call.sender != "client" or self.talk.version != 1:
            return
        self._named(call)
        if call.method == "nes/suggest" and is_object(call.params):
            self._context(call, call.params.get("context"))

    def noted(self, note: Note) -> None:
        if note.sender != "client" or self.talk.version != 1:
            return
        self._named(note)
        if note.method == "document/didChange" and is_object(note.params):
            self._changed(note, items(note.params, "contentChanges"))

    def answered(self, call: Call) -> None:
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
            case "nes/suggest" if self.talk.version == 1:
                suggestions = items(result, "suggestions")
                self._kinds(call, suggestions)
                self._after_close(call, bool(suggestions))
            case _:
                pass

    def _named(self, seen: Call | Note) -> None:
        """The same id in both spaces is nobody's fault, one that only chats have is."""
        ident = seen.session_id
        if ident is None or not seen.method.startswith(_FAMILY):
            return
        own = ident in self._started
        if own or (self.talk.session(ident) and not self.talk.waiting("client", "nes/start")):
            self.judge(
                "R-NES-02",
                own,
                seen,
                expected="an id that nes/start gave",
                got=f"{shown(ident)}, which is a chat session",
            )

    def _context(self, call: Call, context: Any) -> None:
        if not is_object(context) or not self._offers("agent.nes"):
            return
        for key, name in _CONTEXT.items():
            if context.get(key):
                self.judge(
                    "R-NES-01",
                    self._offers(f"agent.nes.context.{name}"),
                    self.talk.initialized,
                    call,
                    expected=f"{key} only if the agent declared nes.context.{key}",
                    got=f"{key} without it",
                    by="client",
                )

    def _changed(self, note: Note, changes: list[dict[str, Any]]) -> None:
        path = ("nes", "events", "document", "did_change", "sync_kind")
        kind: Any = self.talk.capabilities["agent"]
        for name in path:
            kind = getattr(kind, name, None)
        ranges = [change.get("range") is not None for change in changes]
        if kind == "full":
            self.judge(
                "R-NES-06",
                not any(ranges),
                self.talk.initialized,
                note,
                expected="the whole text without a range, as the agent's syncKind is full",
                got="a range",
            )
        elif kind == "incremental" and ranges and all(ranges):
            self.judge("R-NES-06", True)  # a change without range replaces all, in either kind

    def _encoding(self, call: Call, result: dict[str, Any]) -> None:
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
            expected=f"utf-16, or one of {shown(known)}",
            got=shown(picked),
            by="agent",
        )

    def _kinds(self, call: Call, suggestions: list[dict[str, Any]]) -> None:
        if self.talk.capabilities["client"] is None:
            return
        for suggestion in suggestions:
            kind = suggestion.get("kind")
            if not isinstance(kind, str) or kind not in ("edit", *_KINDS):
                continue
            self.judge(
                "R-NES-07",
                kind == "edit" or self._offers(f"client.nes.{_KINDS[kind]}"),
                self.talk.initialized,
                call,
                expected="an edit, or a kind that the client advertised",
                got=shown(kind),
            )

    def _after_close(self, call: Call, suggests: bool) -> None:
        closed = self._closed.get(call.session_id or "")
        if closed is None or closed.reply is None or call.reply is None:
            return
        asked_later = call.frame.number > closed.reply.frame.number
        late = call.reply.frame.time - closed.reply.frame.time >= NOTICED_S
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
        return is_open(gate, self.talk.capabilities)
