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


class TestChatCompletions(TestOpenAiAgents):
    """The same with the other API, as far as it differs."""

    def model(self) -> Any:
        return OpenAIChatCompletionsModel("scripted", self.client())


for _name in dir(BridgeContract):
    if _name.startswith("test_") and not any(
        word in _name
        for word in ("in_order", "several_messages", "shown_with", "two_calls", "usage")
    ):
        setattr(TestChatCompletions, _name, None)


# What only this framework has.


class City(BaseModel):
    """An output that is not text."""

    name: str


async def test_handoff_is_shown_and_lasts():
    contract = TestOpenAiAgents()
    script = Script(
        Reply(calls=(ToolUse("transfer_to_helper", {}),)),
        Reply(text=("Helper ", "here.")),
        Reply(text=("Still the helper.",)),
        Reply(text=('{"name": "Oslo"}',)),
    )

    async def make(script: Script, **options: Any) -> Any:
        helper = Agent(name="helper", instructions="word-helper", model=contract.model())
        return as_agent(contract.agent(handoffs=[helper]), **options)

    contract.make_agent = make  # of this test
    async with contract.connected(script, modes={"plain": "word-mode"}) as client:
        session = await client.session()
        turn = await client.turn(session, "go")
        assert turn.text == "Helper here."
        assert "helper has the conversation" in str(turn.tool_calls[0].content)
        assert turn.tool_calls[0].status == "completed"
        assert (await client.turn(session, "and?")).text == "Still the helper."
        copy = await client.agent.fork_session(session.id, session.cwd)
        assert (await client.turn(copy, "there?")).text == '{"name": "Oslo"}'


async def test_guardrails_steps_and_outputs_of_tools():
    contract = TestOpenAiAgents()

    @input_guardrail
    async def guard(_: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered="word-bad" in str(given[-1]))

    def where(ctx: RunContextWrapper[str]) -> str:
        """Say where it works."""
        return f"word-in {ctx.context}"

    read = Reply(calls=(ToolUse("where", {}),))
    script = Script(Reply(text=("Too late.",)), read, Reply(text=("Never.",)))

    async def make(script: Script, **options: Any) -> Any:
        agent = Agent(
            name="tester",
            model=contract.model(),
            tools=[function_tool(where)],
            input_guardrails=[guard],
            tool_use_behavior="stop_on_first_tool",
            model_settings=ModelSettings(temperature=0),
        )
        return as_agent(agent, **options)

    contract.make_agent = make  # of this test
    settings = {"context": lambda run: run.cwd, "max_turns": 1}
    async with contract.connected(script, settings=settings) as client:
        session = await client.session()
        turn, error = await client.ended(session, "word-bad")
        assert (turn.stop_reason, error) == ("refusal", None)
        assert "guardrail" in turn.text
        script.replies[:] = [read]
        turn = await client.turn(session, "go")
        assert turn.text == f"word-in {client.folder}", "an output that no text has said"


async def test_too_many_steps_end_the_turn():
    contract = TestOpenAiAgents()
    read = Reply(calls=(ToolUse("read_note_file", {"path": "a"}),))
    script = Script(read, Reply(text=("Again.",)))
    async with contract.connected(script, settings={"max_turns": 1}) as client:
        session = await client.session()
        turn, error = await client.ended(session, "go")
        assert (turn.stop_reason, error) == ("max_turn_requests", None)
        assert (await client.turn(session, "more")).text == "Again."
