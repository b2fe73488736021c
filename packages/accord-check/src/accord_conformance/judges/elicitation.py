"""Elicitation: forms and URLs that the agent shows to the user."""

from __future__ import annotations

import re
from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.judges.base import Judge
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.strict_types import format_value

_CREATE = "elicitation/create"


class Elicitation(Judge):
    """R-ELIC."""

    rules = (
        "R-ELIC-03",
        "R-ELIC-05",
        "R-ELIC-07",
        "R-ELIC-22",
        "R-ELIC-24",
        "R-ELIC-28",
        "R-ELIC-29",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pages: dict[
            str, Request
        ] = {}  # outstanding: unanswered, or accepted and not completed
        self._ever: set[str] = set()

    def on_request(self, call: Request) -> None:
        if call.method != _CREATE or not is_object(call.params):
            return
        params = call.params
        if "requestId" in params and self.state.version == 2:
            self.judge(
                "R-ELIC-05",
                self.state.find_request("client", params["requestId"]) is not None,
                call,
                expected="the id of a pending request of the client",
                got=format_value(params["requestId"]),
            )
        schema = params.get("requestedSchema")
        if params.get("mode") == "form" and is_object(schema) and self.state.version == 1:
            self.judge(
                "R-ELIC-07",
                "type" in schema and "properties" in schema,
                call,
                expected="`type` and `properties` in `requestedSchema`",
                got=format_value(schema),
            )
        if params.get("mode") == "url":
            self._page(call, params)

    def _page(self, call: Request, params: dict[str, Any]) -> None:
        ident, url = params.get("elicitationId"), params.get("url")
        if isinstance(ident, str):
            self.judge(
                "R-ELIC-28",
                ident not in self._pages,
                self._pages.get(ident),
                call,
                expected="an id that no outstanding URL elicitation has",
                got=format_value(ident),
            )
            self._pages[ident] = call
            self._ever.add(ident)
        if isinstance(url, str):
            self.judge(
                "R-ELIC-22",
                not _has_password(url),
                call,
                expected="a URL without credentials",
                got="a URL with user name and password",
            )

    def on_response(self, call: Request) -> None:
        if call.method != _CREATE or not is_object(call.params):
            return
        mode = call.params.get("mode")
        offered = getattr(self.state.capabilities["client"], "elicitation", None)
        is_known_mode = mode in ("form", "url") and None not in self.state.capabilities.values()
        if is_known_mode and getattr(offered, str(mode), None) is None:
            self.judge(
                "R-ELIC-03",
                call.code in (-32602, -32601) if offered is None else call.code == -32602,
                call,
                expected="-32602 for a mode that was not advertised",
                got="a result" if call.ok else format_value(call.code),
            )
        result = call.result if is_object(call.result) else {}
        if result.get("action") != "accept":
            for ident in [ident for ident, page in self._pages.items() if page is call]:
                del self._pages[ident]
        if call.ok:
            # Version 2 does not define the values of custom fields.
            content = result.get("content")
            flat = not is_object(content) or not any(map(is_object, content.values()))
            if self.state.version == 1:
                self.judge(
                    "R-ELIC-24",
                    flat,
                    call,
                    expected="strings, numbers, booleans and lists of strings",
                    got="an object",
                )

    def on_notification(self, note: Notification) -> None:
        if note.method != "elicitation/complete" or not is_object(note.params):
            return
        ident = note.params.get("elicitationId")
        self.judge(
            "R-ELIC-29",
            str(ident) in self._ever,
            note,
            expected="the id of a URL elicitation of this connection",
            got=format_value(ident),
        )
        if isinstance(ident, str):
            self._pages.pop(ident, None)


def _has_password(url: str) -> bool:
    """Return whether a URL has `user:password@` before its host."""
    return re.match(r"[a-z][a-z0-9+.-]*://[^/?#@]*:[^/?#@]+@", url, re.IGNORECASE) is not None
