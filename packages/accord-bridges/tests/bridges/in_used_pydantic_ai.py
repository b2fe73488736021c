"""`AcpModel` in pydantic-ai; run by test_frameworks.py."""

import asyncio
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pydantic
import pytest
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolOutput,
    capture_run_messages,
)
from pydantic_ai import messages as pm
from pydantic_ai.exceptions import ModelAPIError, OutputTokenLimitExceeded
from pydantic_ai.models.test import TestModel

from accord.client.permissions import allow
from accord_bridges.used_in import AcpAgent
from accord_bridges.used_in.pydantic_ai import AcpModel, acp_toolset

SCRIPT = [sys.executable, "-m", "accord", "agent", "script"]
COMMANDS = [sys.executable, str(Path(__file__).parent / "used_in_agent.py")]

script, commands = AcpAgent(SCRIPT), AcpAgent(COMMANDS)  # one process for all tests


def parts(messages: list[pm.ModelMessage]) -> list[str]:
    """Return the parts of all responses in short."""
    found: list[str] = []
    for part in (part for one in messages if one.kind == "response" for part in one.parts):
        match part:
            case pm.TextPart():
                found.append(part.content)
            case pm.ThinkingPart():
                found.append(f"({part.content})")
            case pm.NativeToolCallPart() | pm.ToolCallPart():
                found.append(f"{part.part_kind} {part.tool_name} {json.dumps(part.args)}")
            case pm.NativeToolReturnPart():
                found.append(f"= {part.outcome} {part.content}")
            case _:
                found.append(type(part).__name__)
    return found


def test_what_the_agent_does_is_parts_and_a_history_continues_its_session():
    agent = Agent(AcpModel(script))
    thought = agent.run_sync("think hard")
    assert thought.output == "I have thought."
    assert parts(thought.all_messages()) == ["(hard)", "I have thought."]
    rejected = agent.run_sync("permission 1", message_history=thought.all_messages())
    assert parts(rejected.new_messages()) == [
        'builtin-tool-call script_thing {"thing": 1}',
        "= denied Not allowed.",
        "0 of 1 allowed.",
    ]
    assert len(set(sessions(rejected.all_messages()))) == 1
    details = agent.run_sync("permission 2").all_messages()[-1].provider_details
    assert details["rejected"] == ["Do thing 1", "Do thing 2"]

    used = agent.run_sync("tokens").usage
    assert (used.input_tokens, used.output_tokens, used.unmeasured_requests) == (20, 10, 0)
    assert agent.run_sync("usage").usage.cost == Decimal("0.25")
    tools = parts(agent.run_sync("tools").all_messages())
    assert tools[0] == 'builtin-tool-call script_read {"kind": "read"}'
    assert sum(one.startswith("= success") for one in tools) == 18
    assert sum(one.startswith("= failed") for one in tools) == 1
    with pytest.raises(OutputTokenLimitExceeded):
        agent.run_sync("stop max_tokens")


def sessions(messages: list[pm.ModelMessage]) -> list[str]:
    return [one.provider_details["session_id"] for one in messages if one.kind == "response"]


def test_each_branch_of_a_history_has_a_session():
    agent = Agent(AcpModel(commands))
    history = agent.run_sync("say hello").all_messages()
    on = agent.run_sync("count", message_history=history)
    other = agent.run_sync("count\nshow", message_history=history)
    assert on.output == "That is prompt 2."
    assert other.output.startswith("That is prompt 1.")
    assert "User: say hello\nAssistant: hello" in other.output
    assert len({*sessions(on.all_messages()), *sessions(other.all_messages())}) == 2
    third = agent.run_sync("count", message_history=on.all_messages())
    assert third.output == "That is prompt 3."


def test_a_rejected_turn_without_text_says_what_was_rejected():
    done = Agent(AcpModel(commands)).run_sync("ask a")
    assert done.output == "[Not allowed: a]"


def test_rules_and_askers_decide_about_permissions():
    asked: list[str] = []

    async def ask(request: Any):
        await asyncio.sleep(0)
        asked.append(f"{request.tool_call.title} {asyncio.get_running_loop() is loop}")
        return "allow"

    async def main():
        nonlocal loop
        loop = asyncio.get_running_loop()
        model = AcpModel(SCRIPT, permissions=ask)
        return (await Agent(model).run("permission 2")).output

    loop: Any = None
    assert asyncio.run(main()) == "2 of 2 allowed."
    assert asked == ["Do thing 1 True", "Do thing 2 True"]
    model = AcpModel(SCRIPT, permissions=allow("edit"))
    assert Agent(model).run_sync("permission 1").output == "1 of 1 allowed."


def test_tools_of_the_run_are_executed_by_pydantic_ai_in_one_turn():
    agent = Agent(AcpModel(commands), deps_type=int, instructions="Be brief.")
    calls: list[Any] = []

    @agent.tool
    async def add(context: RunContext[int], a: int) -> int:
        """Add."""
        calls.append((context.tool_call_id is not None, context.retry))
        if a < 0 and context.retry == 0:
            raise ModelRetry("a must not be negative")
        return context.deps + a

    result = agent.run_sync('call add {"a": 1} & add {"a": 2}\ncall add {"a": 3}', deps=10)
    assert parts(result.all_messages()) == [
        'tool-call add {"a": 1}',
        'tool-call add {"a": 2}',
        "11 and 12",
        'tool-call add {"a": 3}',
        "13",
    ]
    assert result.usage.requests == 3
    assert calls == [(True, 0)] * 3
    result2 = agent.run_sync('call add {"a": -1}\ncall add {"a": -1}', deps=10)
    said = parts(result2.all_messages())
    assert said[1].startswith("error: ")
    assert "a must not be negative" in said[1]
    assert said[-1] == "9"
    # The session stays the same, and knows its prompts.
    more = agent.run_sync("count", deps=1, message_history=result.all_messages())
    assert more.output == "That is prompt 2."
    assert "Be brief." in agent.run_sync("show", deps=1).output

    @agent.tool_plain
    def fails() -> str:
        raise ZeroDivisionError

    async def main():
        model: Any = agent.model
        with capture_run_messages(), pytest.raises(ZeroDivisionError):
            await agent.run("call fails {}", deps=1)
        async with asyncio.timeout(5):
            while any(one.turn for one in model.agent._sessions.values()):
                await asyncio.sleep(0.01)  # no turn waits any more

    asyncio.run(main())


def test_approvals_of_pydantic_ai_continue_the_turn():
    agent = Agent(AcpModel(commands), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        return f"deleted {path}"

    first = agent.run_sync('call delete {"path": "a"}')
    assert isinstance(first.output, DeferredToolRequests)
    call = first.output.approvals[0]
    results = DeferredToolResults(approvals={call.tool_call_id: True})
    done = agent.run_sync(message_history=first.all_messages(), deferred_tool_results=results)
    assert done.output == "deleted a"
    # The turn is gone with its process: the result is a new prompt.
    first = agent.run_sync('call delete {"path": "a"}')
    model: Any = agent.model
    model.agent.close()
    call = first.output.approvals[0]
    results = DeferredToolResults(approvals={call.tool_call_id: True})
    messages = pm.ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
    done = agent.run_sync("show", message_history=messages, deferred_tool_results=results)
    assert "The tool delete returned:\ndeleted a" in done.output


class City(pydantic.BaseModel):
    name: str


def test_structured_output():
    prompted = Agent(AcpModel(commands), output_type=City, retries=2)
    result = prompted.run_sync('say {"name": 1}')
    assert result.output == City(name="Rome")
    assert len(set(sessions(result.all_messages()))) == 1
    by_tool = Agent(AcpModel(commands), output_type=ToolOutput(City, name="done"))
    assert by_tool.run_sync('call done {"name": "Rome"}').output == City(name="Rome")


def test_streams_and_cancels():
    async def main():
        agent = Agent(AcpModel(script))
        async with agent.run_stream("stream 5") as result:
            pieces = [one async for one in result.stream_text(delta=True, debounce_by=None)]
        assert pieces == ["1 ", "2 ", "3 ", "4 ", "5 "]
        async with agent.run_stream_events("updates") as stream:
            kinds = [one.event_kind async for one in stream]
        assert kinds.count("part_start") == 5
        first = await agent.run("echo hello")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await agent.run("wait forever", message_history=first.all_messages())
        # The session has no running turn: it takes the next prompt.
        async with asyncio.timeout(5):
            more = await agent.run("echo again", message_history=first.all_messages())
        assert "again" in more.output

    asyncio.run(main())


def test_errors_are_readable():
    with pytest.raises(ModelAPIError, match=r"no-such-agent could not be started.*no-such-agent"):
        Agent(AcpModel("no-such-agent --acp")).run_sync("x")
    agent = Agent(AcpModel(script))
    with pytest.raises(ModelAPIError, match=r"failed: .*The script says so"):
        agent.run_sync("error")
    with pytest.raises(ModelAPIError, match=r"has ended: .*status 3"):
        agent.run_sync("exit 3")
    assert agent.run_sync("echo alive").output == "alive"  # a new process
    agent.run_sync("logout")
    with pytest.raises(ModelAPIError, match="needs a login"):
        agent.run_sync("x")


def test_an_agent_asks_another_one():
    agent = commands
    main = Agent(TestModel(), toolsets=[acp_toolset(agent)])
    done = main.run_sync("x", conversation_id="c")
    assert "c" in agent.threads
    main.run_sync("x", conversation_id="c")
    assert "ask_agent" in done.output
