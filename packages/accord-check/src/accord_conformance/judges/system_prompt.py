"""System prompts of a session."""

from __future__ import annotations

from accord.text.lenient_json import is_array, is_object
from accord_conformance.judges.base import Judge
from accord_conformance.judges.paths import items
from accord_conformance.traffic.connection_state import SETUP_METHODS
from accord_conformance.traffic.message import Request
from accord_conformance.traffic.strict_types import format_value


class SystemPrompt(Judge):
    """R-SYSP."""

    rules = ("R-SYSP-05",)

    def on_request(self, call: Request) -> None:
        if call.sender != "client" or call.method not in SETUP_METHODS:
            return
        prompt = call.params.get("systemPrompt") if is_object(call.params) else None
        if is_object(prompt) and is_array(prompt.get("content")):
            kinds = [block.get("type") for block in items(prompt, "content")]
            self.judge(
                "R-SYSP-05",
                bool(kinds) and all(kind == "text" for kind in kinds),
                call,
                expected="text blocks, at least one",
                got=format_value(kinds),
            )
