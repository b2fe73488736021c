"""Providers of models: listed, and nonsense asked for; nothing is changed."""

from __future__ import annotations

from typing import Any

from accord_conformance.agent.context import AgentContext
from accord_conformance.harness.scenario import scenario

__all__ = ("SCENARIOS",)


@scenario("providers/refused", "R-PROV-01", "R-PROV-07")
async def _refused(stage: AgentContext) -> None:
    """Providers are listed; one that there is not is configured, and one in no way."""
    editor = stage.client
    editor.require("providers")
    call = editor.connection.send_request("providers/list", {})
    await stage.expect_success("R-PROV-01", editor, call, why="`providers/list`, which is offered")
    whole = {"providerId": "accord-unknown", "apiType": "openai", "baseUrl": "https://example.com"}
    odd: dict[str, dict[str, Any]] = {
        "a provider that there is not": whole,
        "a provider without an address": {"providerId": "accord-unknown"},
        "an address that is a number": {**whole, "baseUrl": 5},
    }
    for why, params in odd.items():
        call = editor.connection.send_request("providers/set", params)
        await stage.expect_error("R-PROV-07", editor, call, (-32602,), why=why)
    await editor.connection.call("providers/disable", {"providerId": "accord-unknown"})  # observed


SCENARIOS = (_refused,)
