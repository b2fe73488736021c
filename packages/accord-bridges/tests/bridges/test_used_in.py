"""`AcpAgent`, which all frameworks share, without a framework."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from accord_bridges.used_in import AcpAgent, AcpAgentError
from accord_bridges.used_in.agents import CallerTool, ask
from accord_bridges.used_in.turns import Turn, agents_loop

COMMANDS = [sys.executable, str(Path(__file__).parent / "used_in_agent.py")]
REFUSES_RESUME = """
import json, subprocess, sys
agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, text=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "session/resume":
        error = {"code": -32601, "message": "Method not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
    else:
        agent.stdin.write(line)
        agent.stdin.flush()
"""


@pytest.fixture
async def agent() -> AsyncIterator[AcpAgent]:
    agent = AcpAgent(COMMANDS)
    try:
        async with asyncio.timeout(30):
            yield agent
    finally:
        await agent.aclose()


async def test_session_of_an_agent_that_refuses_to_resume_is_loaded(tmp_path: Path):
    command = [sys.executable, "-c", REFUSES_RESUME, *COMMANDS]
    # In version 2 the same method resumes and loads.
    agent = AcpAgent(command, versions=(1,), env={"SESSIONS": str(tmp_path / "sessions.db")})
    try:
        async with asyncio.timeout(30):
            _, first = await ask(agent, "t", "say hello")
            await agent.aclose()  # a next use starts a new process
            said, second = await ask(agent, "t", "count")
    finally:
        await agent.aclose()
    assert second.session_id == first.session_id
    assert said == "That is prompt 2."


async def test_prompt_with_other_tools_ends_the_turn_that_waits(agent: AcpAgent):
    turn = await agent.start(["edit a"])
    while not turn.rejected and (items := await turn.read()):
        if any(hasattr(item, "decision") for item in items):
            break  # the permission is not answered
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    tools = [CallerTool("add", "Add.", schema)]
    after = await agent.start(["say b"], session_id=turn.session_id, tools=tools)
    assert turn.is_ended
    assert turn.stop_reason == "cancelled"
    assert after.session_id == turn.session_id
    while await after.read():
        pass
    assert after.stop_reason == "end_turn"


async def test_turn_whose_caller_is_cancelled_when_it_begins_is_cancelled(agent: AcpAgent):
    session_id = await agent.open()
    start = asyncio.create_task(agent.start(["wait"], session_id=session_id))
    await asyncio.sleep(0)  # the task has begun

    async def begun() -> Turn:
        while (turn := agent.running(session_id)) is None:
            await asyncio.sleep(0)
        return turn

    # Blocks this loop, which must not learn that the turn has begun.
    turn = asyncio.run_coroutine_threadsafe(begun(), agents_loop()).result(10)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    while await turn.read():
        pass
    assert turn.stop_reason == "cancelled"


async def test_content_that_cannot_be_sent_is_an_error(agent: AcpAgent):
    wrong: Any = 3
    with pytest.raises(AcpAgentError, match="failed: "):
        await ask(agent, "t", wrong)
