"""Providers of models."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.judges.base import Judge
from accord_conformance.judges.paths import items
from accord_conformance.traffic.message import Request
from accord_conformance.traffic.strict_types import format_value


class Providers(Judge):
    """R-PROV."""

    rules = ("R-PROV-02", "R-PROV-05", "R-PROV-08", "R-PROV-09")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._required: dict[str, bool] = {}  # of the listed providers, by id
        self._disabled: dict[str, Request] = {}

    def on_request(self, call: Request) -> None:
        if (
            call.sender == "client"
            and call.method.startswith("providers/")
            and is_object(call.params)
        ):
            self.judge(
                "R-PROV-02",
                self.state.initialized is not None,
                call,
                expected="`initialize` before this request",
                got=call.method,
            )

    def on_response(self, call: Request) -> None:
        if call.sender != "client" or not is_object(call.params):
            return
        ident = str(call.params.get("providerId"))
        match call.method:
            case "providers/list" if call.ok and is_object(call.result):
                self._list(call)
            case "providers/set" if call.ok:
                self._disabled.pop(ident, None)
            case "providers/disable":
                self._disable(ident, call)
            case _:
                pass

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
                expected="a result for an unknown provider",
                got=f"error {format_value(call.code)}",
            )
        if call.ok and ident in self._required:
            self._disabled[ident] = call

    def _list(self, call: Request) -> None:
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
