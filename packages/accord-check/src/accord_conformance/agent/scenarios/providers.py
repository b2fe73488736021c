"""Providers of models: listed, and invalid requests, which change nothing."""

from __future__ import annotations

from typing import Any

from accord_conformance.agent.context import AgentContext
from accord_conformance.harness.scenario import scenario


@scenario("providers/refused", "R-PROV-01", "R-PROV-07")
async def _refused(context: AgentContext) -> None:
    """Providers are listed; an unknown one is set, and one with invalid params."""
    client = context.client
    client.require("providers")
    call = client.connection.send_request("providers/list", {})
    await context.expect_success(
        "R-PROV-01",
        client,
        call,
        why="`providers/list`, which the agent advertises",
        authority="derived",  # the rule forbids the converse: to serve it without the capability
    )
    whole = {"providerId": "accord-unknown", "apiType": "openai", "baseUrl": "https://example.com"}
    odd: dict[str, dict[str, Any]] = {
        "an unknown provider": whole,
        "a provider without a URL": {"providerId": "accord-unknown"},
        "a URL that is a number": {**whole, "baseUrl": 5},
    }
    for why, params in odd.items():
        call = client.connection.send_request("providers/set", params)
        await context.expect_error("R-PROV-07", client, call, (-32602,), why=why)
    await client.connection.call("providers/disable", {"providerId": "accord-unknown"})  # observed


SCENARIOS = (_refused,)
