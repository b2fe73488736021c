"""What is left: cancelling requests, providers, compactions, system prompts, more roots."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.judges.base import Judge
from accord_conformance.judges.paths import is_absolute, items
from accord_conformance.traffic.connection_state import SETUP_METHODS, update_of
from accord_conformance.traffic.frame import Side
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.strict_types import format_value

__all__ = ("Extras",)

_TERMINAL = ("completed", "failed", "cancelled")


class Extras(Judge):
    """R-REQCAN-02, R-DIR, R-SYSP-05, R-COMP-03, R-PROV, R-ERR-02."""

    rules = (
        "R-REQCAN-02",
        "R-DIR-06",
        "R-DIR-11",
        "R-SYSP-05",
        "R-COMP-03",
        "R-PROV-02",
        "R-PROV-05",
        "R-PROV-08",
        "R-PROV-09",
        "R-ERR-02",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._ids: dict[Side, set[Any]] = {"agent": set(), "client": set()}
        self._compactions: dict[tuple[str | None, Any], tuple[Any, Notification]] = {}
        self._required: dict[str, bool] = {}  # providers that were listed
        self._disabled: dict[str, Request] = {}

    def on_request(self, call: Request) -> None:
        self._ids[call.sender].add(repr(call.id))
        if call.sender != "client" or not is_object(call.params):
            return
        if call.method in SETUP_METHODS:
            self._roots(call)
            self._system_prompt(call)
        if call.method.startswith("providers/"):
            self.judge(
                "R-PROV-02",
                self.state.initialized is not None,
                call,
                expected="`initialize` before it",
                got=call.method,
            )

    def _roots(self, call: Request) -> None:
        roots = call.params.get("additionalDirectories")
        if is_array(roots) and roots:
            names = [root for root in roots if isinstance(root, str)]
            twice = len(names) != len(set(names)) or call.params.get("cwd") in names
            self.judge(
                "R-DIR-11",
                not twice,
                call,
                expected="each root once, `cwd` not among them",
                got=format_value(roots),
            )

    def _system_prompt(self, call: Request) -> None:
        prompt = call.params.get("systemPrompt")
        if is_object(prompt) and is_array(prompt.get("content")):
            kinds = [block.get("type") for block in items(prompt, "content")]
            self.judge(
                "R-SYSP-05",
                bool(kinds) and all(kind == "text" for kind in kinds),
                call,
                expected="text blocks, at least one",
                got=format_value(kinds),
            )

    def on_notification(self, note: Notification) -> None:
        if note.method == "$/cancel_request" and is_object(note.params):
            ident = note.params.get("requestId")
            self.judge(
                "R-REQCAN-02",
                repr(ident) in self._ids[note.sender] or len(self.state.requests) == 0,
                note,
                expected="the id of a request of its own",
                got=format_value(ident),
                by=note.sender,
            )
        update = update_of(note)
        if note.method == "session/update" and update.get("sessionUpdate") == "compaction_update":
            self._compaction(note, update)

    def _compaction(self, note: Notification, update: dict[str, Any]) -> None:
        key, status = (note.session_id, repr(update.get("compactionId"))), update.get("status")
        before = self._compactions.get(key)
        if status in _TERMINAL:
            self.judge(
                "R-COMP-03",
                before is None or before[0] not in _TERMINAL or before[0] == status,
                before[1] if before else None,
                note,
                expected="one terminal status",
                got=f"{format_value(status)} after {format_value(before and before[0])}",
            )
        self._compactions[key] = (status, note)

    def _bad_roots(self, call: Request) -> None:
        """What is no absolute path is refused, not left out."""
        roots = call.params.get("additionalDirectories")
        if roots is None or roots == []:
            return
        good = is_array(roots) and all(isinstance(r, str) and is_absolute(r) for r in roots)
        if not good:
            self.judge(
                "R-DIR-06",
                not call.ok,
                call,
                expected="an error for roots that are no absolute paths",
                got="a result",
            )

    def on_response(self, call: Request) -> None:
        if call.sender != "client" or not is_object(call.params):
            return
        if call.method in SETUP_METHODS:
            self._bad_roots(call)
        ident = str(call.params.get("providerId"))
        match call.method:
            case "providers/list" if call.ok and is_object(call.result):
                self._providers(call)
            case "providers/set" if call.ok:
                self._disabled.pop(ident, None)
            case "providers/disable":
                self._disable(ident, call)
            case _:
                pass
        if call.code == -32002 and call.method != "session/status":
            self._unknown_session(call)

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

    def _disable(self, ident: str, call: Request) -> None:
        if self._required.get(ident) is True:
            self.judge(
                "R-PROV-08",
                call.code == -32602,
                call,
                expected="-32602 for a required provider",
                got="a result" if call.ok else format_value(call.code),
            )
        elif ident not in self._required and self._required:
            self.judge(
                "R-PROV-09",
                call.ok,
                call,
                expected="success for a provider that is not known",
                got=f"error {format_value(call.code)}",
            )
        if call.ok and ident in self._required:
            self._disabled[ident] = call

    def _providers(self, call: Request) -> None:
        providers = items(call.result, "providers")
        for provider in providers:
            self._required[str(provider.get("providerId"))] = provider.get("required") is True
        by_id = {str(provider.get("providerId")): provider for provider in providers}
        for ident, disabled in self._disabled.items():
            self.judge(
                "R-PROV-05",
                ident in by_id and by_id[ident].get("current") is None,
                disabled,
                call,
                expected=f"{format_value(ident)} in the list, without `current`",
                got=format_value(by_id.get(ident)),
            )
