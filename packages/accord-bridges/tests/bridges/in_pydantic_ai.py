"""The bridge of pydantic-ai, with its `FunctionModel`; run by test_frameworks.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import (
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    CustomEvent,
    DeferredToolRequests,
    ModelRetry,
    RunContext,
    Tool,
    UsageLimits,
    WrapperAgent,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

import accord
from accord import Agent
from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Reply, Script, ToolUse

pytestmark = [pytest.mark.asyncio]


class Scripted(FunctionModel):
    """A model that follows a script and reports its use."""

    def __init__(self, script: Script, name: str = "scripted", used: list[str] | None = None):
        self.replies: list[Reply] = []

        async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
            if used is not None:
                used.append(name)
            reply = script.reply([messages, info.instructions])
            self.replies.append(reply)
            reply.raise_failure()
            for number, thought in enumerate(reply.thoughts):
                yield {0: DeltaThinkingPart(content=thought)}
            for text in reply.text:
                yield text
            if reply.hangs:
                yield ""
                await script.hang()
            for number, call in enumerate(reply.calls):
                text = json.dumps(call.arguments)
                half = len(text) // 2
                yield {10 + number: DeltaToolCall(call.name, text[:half], tool_call_id=call.id)}
                yield {10 + number: DeltaToolCall(None, text[half:])}

        super().__init__(stream_function=stream, model_name=name)

    def request_stream(self, *arguments: Any, **more: Any) -> Any:
        from contextlib import asynccontextmanager

        whole = super().request_stream(*arguments, **more)

        @asynccontextmanager
        async def opened() -> AsyncIterator[Any]:
            async with whole as response:
                yield response
                if self.replies:
                    reply = self.replies[-1]
                    response._usage = RequestUsage(
                        input_tokens=reply.input_tokens, output_tokens=reply.output_tokens
                    )

        return opened()


class TestPydanticAi(BridgeContract):
    """An agent with the tools of the contract, some of which need approvals."""

    can = frozenset(
        ("thoughts", "approvals", "edited_arguments", "plans", "questions", "mcp", "images",
         "usage", "models", "steering", "parallel_calls", "fork", "editor_tools")
    )  # fmt: skip

    async def make_agent(self, script: Script, **options: Any) -> Agent:
        def ask_user(question: str) -> str:
            """Ask the user."""
            raise CallDeferred

        agent = PydanticAgent(
            Scripted(script),
            name="tester",
            tools=[
                *self.tools.plain,
                *(Tool(tool, requires_approval=True) for tool in self.tools.guarded),
                ask_user,
            ],
        )
        if models := options.get("models"):
            names = {name: Scripted(script, name, self.models_used) for name in models}
            return as_agent(Named(agent, names), **options)
        return as_agent(agent, **options)


class Named(WrapperAgent):
    """An agent that knows models by names of its own."""

    def __init__(self, wrapped: Any, names: dict[str, Any]):
        super().__init__(wrapped)
        self.names = names

    async def run(self, *arguments: Any, model: Any = None, **more: Any) -> Any:
        return await super().run(*arguments, model=self.names.get(model, model), **more)
