"""The services of the conformance kit for an agent respond to any params."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from accord.script_agent.agent import ScriptAgent
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.settings import Settings
from accord_conformance.harness import scenario
from conformance.agent.filtered_agent import FilteredTransport, Json, MessageFilter

ODD: tuple[Any, ...] = (None, [], 5, -1, 1.5, True, "x", "\0", {}, [[]], [5], {"a": []})
METHODS = (
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/release",
    "session/request_permission",
    "elicitation/create",
    "session/unheard",
)
WHOLE: dict[str, Json] = {
    "fs/read_text_file": {"path": "/none"},
    "fs/write_text_file": {"path": "/none", "content": "text"},
    "terminal/create": {"command": "accord-no-such-program"},
}
KEYS = (
    "sessionId",
    "path",
    "line",
    "limit",
    "content",
    "command",
    "args",
    "env",
    "cwd",
    "outputByteLimit",
    "terminalId",
    "options",
    "requestedSchema",
)


class Asks(MessageFilter):
    """Sends requests with any params to the client."""

    method = ""
    answers: dict[Any, Json]

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "_accord/go":
            self.answers = {}
            whole = WHOLE.get(self.method, {})
            params = [*ODD, *({**whole, key: value} for key in KEYS for value in ODD)]
            schema = [{"mode": "form", "requestedSchema": {"properties": odd}} for odd in ODD]
            fields: list[Json] = [
                {"oneOf": odd, "enum": odd, "minLength": odd, "type": "string"} for odd in ODD
            ]
            schema += [
                {"mode": "form", "requestedSchema": {"properties": {"a": one}}} for one in fields
            ]
            for number, one in enumerate([*params, *schema]):
                self.tell({"id": f"odd-{number}", "method": self.method, "params": one})
                self.answers[f"odd-{number}"] = {}
        if "method" not in message and str(message.get("id")).startswith("odd-"):
            self.answers.pop(message["id"], None)
            if not self.answers:
                self.answer({"id": "go"}, {})
            return None
        return None if message.get("method") == "_accord/go" else message


@pytest.mark.parametrize("method", METHODS)
async def test_any_params_are_answered(method: str) -> None:
    make = type("AsksForOne", (Asks,), {"method": method})

    @scenario("kit/odd", isolated=True)
    async def odd(stage: AgentContext) -> None:
        """The agent sends requests with any params."""
        editor = await stage.connect_initialized()
        await editor.connection.call("_accord/go", {}, ident="go")

    def connect(noise: Callable[[str], None]) -> FilteredTransport:
        return FilteredTransport(make, ScriptAgent())

    result = await AgentRun(connect, [odd], Settings(timeout=20.0, answer=20.0)).run((1,))
    assert result.kit_errors == []
    assert [one.outcome for one in result.scenario_results] == ["finished"]
