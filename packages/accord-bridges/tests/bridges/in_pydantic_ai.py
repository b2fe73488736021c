"""The bridge of pydantic-ai, with its `FunctionModel`; run by test_frameworks.py."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import fastmcp.client  # noqa: F401  # takes seconds under load, which no case should wait for
import pydantic_ai.mcp  # noqa: F401  # as above
import pytest
from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import (
    ApprovalRequired,
    CallDeferred,
    CustomEvent,
    DeferredToolRequests,
    ModelRetry,
    RunContext,
    Tool,
    UsageLimits,
)
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

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
            for thought in reply.thoughts:
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


# What only this framework has.


class City(BaseModel):
    """An output that is not text."""

    name: str
    people: int


@dataclass(kw_only=True)
class Progress(CustomEvent):
    """What a tool does."""

    message: str


def served(
    contract: TestPydanticAi, agent: Any, script: Script, *, permissions: Any = None, **options: Any
):
    return contract.connected(script, permissions=permissions, agent=as_agent(agent, **options))


async def test_output_that_is_no_text_is_shown_as_json():
    contract = TestPydanticAi()
    city = ToolUse("final_result", {"name": "Oslo", "people": 700000})
    wrong = ToolUse("final_result", {"name": "Oslo", "people": "many"})
    script = Script(Reply(calls=(wrong,)), Reply(calls=(city,)))
    agent = PydanticAgent(Scripted(script), output_type=[City, DeferredToolRequests])
    async with served(contract, agent, script) as client:
        turn = await client.turn(await client.session(), "which?")
        assert json.loads(turn.text) == {"name": "Oslo", "people": 700000}
        assert not turn.tool_calls, "the call that gives the output is no tool of the agent"


async def test_approvals_say_why_and_calls_of_others_fail():
    contract, asked, ran = TestPydanticAi(), [], []

    def pay(ctx: RunContext[str], amount: int) -> str:
        """Pay."""
        if amount > 10 and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"why": "word-much", "rate": 2})
        ran.append((amount, ctx.tool_call_metadata, ctx.deps))
        return "Paid."

    def outside(x: int) -> str:
        """Run somewhere else."""
        raise CallDeferred

    async def work(ctx: RunContext[str], n: int) -> str:
        """Work."""
        await ctx.emit(Progress(message="word-half"))
        if ctx.retry == 0:
            raise ModelRetry("word-again")
        return "Worked."

    async def decide(request: Any) -> Any:
        asked.append(request)
        return "allow"

    calls = [ToolUse("pay", {"amount": n}) for n in (5, 50)] + [
        ToolUse("outside", {"x": 1}),
        ToolUse("work", {"n": 1}),
    ]
    script = Script(
        Reply(calls=calls), Reply(calls=(ToolUse("work", {"n": 1}),)), Reply(text=("Done.",))
    )
    agent = PydanticAgent(Scripted(script), tools=[pay, outside, work], deps_type=str)
    modes = {"careful": "word-careful.", "fast": ""}
    async with served(
        contract, agent, script, permissions=decide, modes=modes,
        settings={"deps": lambda run: run.cwd},
    ) as client:  # fmt: skip
        session = await client.session()
        turn = await client.turn(session, "pay")
        assert len(asked) == 1
        assert "why: word-much\nrate: 2" in asked[0].description
        assert ran == [
            (5, None, client.folder),
            (50, {"why": "word-much", "rate": 2}, client.folder),
        ]
        status = {f"{call.name} {call.raw_input}": call.status for call in turn.tool_calls}
        assert status["outside {'x': 1}"] == "failed"
        assert [call.status for call in turn.tool_calls if call.name == "work"] == [
            "failed",
            "completed",
        ]
        assert "word-half" in str(turn.tool_calls[-1].content)
        assert "word-again" in script.requests[1]
        assert "Mode: careful. word-careful." in script.requests[0]


async def test_limits_and_unusable_answers_end_the_turn_with_a_reason():
    contract = TestPydanticAi()
    read = Reply(calls=(ToolUse("read_note_file", {"path": "a"}),))
    unknown = [Reply(calls=(ToolUse("nothing", {}),)) for _ in range(2)]
    script = Script(read, read, Reply(text=("Here.",)), *unknown, Reply(text=("Still here.",)))
    agent = PydanticAgent(Scripted(script), tools=contract.tools.plain)
    limits = {"usage_limits": UsageLimits(request_limit=2)}
    async with served(contract, WrapperAgent(agent), script, settings=limits) as client:
        session = await client.session()
        turn, error = await client.ended(session, "go")
        assert turn.stop_reason == "max_turn_requests"
        assert error is None
        assert "request_limit" in turn.text
        assert (await client.turn(session, "word-more")).text == "Here."
        turn, error = await client.ended(session, "go")
        assert "nothing" in str(error)
        assert (await client.turn(session, "now")).text == "Still here."


async def test_parts_of_the_provider_are_shown():
    from pydantic_ai.messages import NativeToolCallPart, NativeToolReturnPart

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield "Before. "
        yield {1: NativeToolCallPart("web_search", {"query": "word-oslo"}, tool_call_id="s1")}
        yield {2: NativeToolReturnPart("web_search", {"found": "word-found"}, tool_call_id="s1")}

    agent = PydanticAgent(FunctionModel(stream_function=stream))
    script = Script()
    async with served(TestPydanticAi(), agent, script) as client:
        turn, error = await client.ended(await client.session(), "search")
        call = turn.tool_calls[0]
        assert (call.kind, call.status) == ("fetch", "completed"), error
        assert "word-found" in str(call.content)
