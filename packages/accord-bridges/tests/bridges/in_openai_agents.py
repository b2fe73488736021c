"""The bridge of the OpenAI Agents SDK, with its clients and a server; run by test_frameworks.py."""

from __future__ import annotations

from typing import Any

import agents
import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIProvider,
    OpenAIResponsesModel,
    RunConfig,
    RunContextWrapper,
    function_tool,
    input_guardrail,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

import accord
from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Reply, Script, ToolUse

pytestmark = [pytest.mark.asyncio]
agents.set_tracing_disabled(True)


class TestOpenAiAgents(BridgeContract):
    """An agent with the tools of the contract, some of which need approvals."""

    can = frozenset(
        ("thoughts", "approvals", "plans", "mcp", "images", "usage", "models", "parallel_calls",
         "fork", "editor_tools")
    )  # fmt: skip
    has_server = True

    def mcp_tool(self, server: str, tool: str) -> str:
        return f"mcp_{server}__{tool}"

    def model(self) -> Any:
        return OpenAIResponsesModel("scripted", self.client())

    def client(self) -> AsyncOpenAI:
        url = self.server.url if hasattr(self, "server") else "http://127.0.0.1:9/v1"
        return AsyncOpenAI(base_url=url, api_key="none", max_retries=0)

    def agent(self, **more: Any) -> Agent[Any]:
        return Agent(
            name="tester",
            model=self.model(),
            tools=[
                *(function_tool(tool) for tool in self.tools.plain),
                *(function_tool(tool, needs_approval=True) for tool in self.tools.guarded),
            ],
            **more,
        )

    async def make_agent(self, script: Script, **options: Any) -> accord.Agent:
        if "models" in options:
            provider = OpenAIProvider(openai_client=self.client())
            options["settings"] = {"run_config": RunConfig(model_provider=provider)}
        return as_agent(self.agent(), **options)
