"""ACP agents in the OpenAI Agents SDK; run by test_frameworks.py."""

import asyncio
import json
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import agents
import pytest
from agents import Runner, SQLiteSession
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from accord.client.permissions import allow
from accord_bridges.used_in import AcpAgent, AcpAgentError
from accord_bridges.used_in.openai_agents import acp_agent, acp_tool

agents.set_tracing_disabled(True)
HERE = Path(__file__).parent
SCRIPT = [sys.executable, "-m", "accord", "agent", "script"]
COMMANDS = [sys.executable, str(HERE / "used_in_agent.py")]
script, commands = AcpAgent(SCRIPT), AcpAgent(COMMANDS)  # one process for all tests


class Asks(agents.Model):
    """A model that calls `ask_agent` once with the prompt, and says what it returned."""

    async def get_response(self, *_: Any, input: Any, **__: Any):  # noqa: A002
        last = input[-1] if isinstance(input, list) else {}
        if last.get("type") == "function_call_output":
            text = ResponseOutputText(text=last["output"], type="output_text", annotations=[])
            item: Any = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            prompt = input if isinstance(input, str) else last["content"]
            item = ResponseFunctionToolCall(
                type="function_call", call_id="c1", name="ask_agent",
                arguments=json.dumps({"input": prompt}),
            )  # fmt: skip
        return agents.ModelResponse(output=[item], usage=agents.Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def asked(result: Any) -> list[Any]:
    found = [json.loads(one.raw_item.arguments) for one in result.interruptions]
    return [(one["title"], one["kind"], one["args"]) for one in found]


def test_permissions_are_interruptions():
    worker = acp_agent(commands)
    result = Runner.run_sync(worker, "edit a\nedit b")
    assert asked(result) == [("a", "edit", {"file": "a"})]
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = Runner.run_sync(worker, state)
    assert asked(result) == [("b", "edit", {"file": "b"})]
    state = result.to_state()
    state.reject(result.interruptions[0])
    result = Runner.run_sync(worker, state)
    assert "skipped b." in result.final_output
    assert "[Not allowed: b]" in result.final_output
    rules = acp_agent(AcpAgent(COMMANDS, permissions=allow("edit:a")), asks=False)
    said = Runner.run_sync(rules, "edit b").final_output
    assert said == "skipped b. \n\n[Not allowed: b]"
    assert Runner.run_sync(rules, "ask b").final_output == "[Not allowed: b]"


def test_sessions_usage_tools_and_streaming(tmp_path: Path):
    @agents.function_tool
    async def add(a: int, b: int) -> str:
        return str(a + b)

    worker = acp_agent(commands, tools=[add])
    session = SQLiteSession("s", tmp_path / "sdk.db")
    two = 'call add {"a": 1, "b": 2} & add {"a": 3, "b": 4}'
    assert Runner.run_sync(worker, two, session=session).final_output == "3 and 7"
    again = Runner.run_sync(worker, "count", session=session)
    assert again.final_output == "That is prompt 2."
    used = Runner.run_sync(acp_agent(script), "tokens").context_wrapper.usage
    assert (used.input_tokens, used.output_tokens, used.total_tokens) == (20, 10, 30)

    async def main():
        result = Runner.run_streamed(acp_agent(script), "stream 3")
        deltas = [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent)
        ]
        assert deltas == ["1 ", "2 ", "3 "]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await Runner.run(acp_agent(script), "wait forever")
        async with asyncio.timeout(5):
            assert (await Runner.run(acp_agent(script), "echo x")).final_output == "x"
        with pytest.raises(AcpAgentError, match="could not be started"):
            await Runner.run(acp_agent("no-such-agent"), "x")

    asyncio.run(main())


def test_a_tool_asks_through_the_outer_run():
    outer = agents.Agent(name="Outer", model=Asks(), tools=[acp_tool(commands)])
    result = Runner.run_sync(outer, "edit a")
    assert asked(result) == [("a", "edit", {"file": "a"})]
    state = result.to_state()
    state.approve(result.interruptions[0])
    assert "did a." in Runner.run_sync(outer, state).final_output


PROGRAM = """
    import asyncio, json, os, sys
    sys.path.insert(0, HERE)
    from agents import RunState
    from in_used_openai_agents import COMMANDS, Runner, acp_agent, asked

    async def main():
        worker = acp_agent(COMMANDS)
        given = sys.argv[2]
        if sys.argv[1] == "resume":
            given = await RunState.from_json(worker, json.load(open("state.json")))
            given.approve(given.get_interruptions()[0])
        result = await Runner.run(worker, given)
        if result.interruptions:
            json.dump(result.to_state().to_json(), open("state.json", "w"))
        print(json.dumps([[one[0] for one in asked(result)], result.final_output]), flush=True)
        os.kill(os.getpid(), 9)

    asyncio.run(main())
"""


def test_a_stored_state_survives_its_process(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM).replace("HERE", repr(str(HERE))))

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, program, *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == -9, done.stderr[-2000:]
        return json.loads(done.stdout)

    assert run("new", "edit a\nedit b") == [["a"], None]
    assert run("resume", "")[0] == ["b"]
    assert "did b." in run("resume", "")[1]
