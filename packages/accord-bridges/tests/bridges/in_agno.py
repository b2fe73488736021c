"""The bridge to agno, with a scripted model; run by test_frameworks.py."""

import json
from dataclasses import dataclass
from typing import Any

import agno.tools.mcp  # noqa: F401  # takes seconds under load, which no case should wait for
import fastmcp.client  # noqa: F401  # as above
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.base import Model
from agno.models.message import MessageMetrics
from agno.models.response import ModelResponse
from agno.team import Team
from agno.tools import tool

from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Reply, Script, ToolUse


@dataclass
class Scripted(Model):
    """A model that follows a script."""

    id: str = "scripted"
    script: Any = None

    def invoke(self, *args, **more):
        raise NotImplementedError

    async def ainvoke(self, *args, **more):
        raise NotImplementedError

    def invoke_stream(self, *args, **more):
        raise NotImplementedError

    def _parse_provider_response(self, response, **more):
        return response

    def _parse_provider_response_delta(self, response):
        return response

    async def ainvoke_stream(self, messages, assistant_message, *args, **more):
        asked = [[m.role, m.content, m.tool_calls, m.images] for m in messages]
        reply = self.script.reply([self.id, asked])
        reply.raise_failure()
        for delta in reply.thoughts:
            yield ModelResponse(role="assistant", reasoning_content=delta)
        for delta in reply.text:
            yield ModelResponse(role="assistant", content=delta)
        if reply.hangs:
            await self.script.hang()
        calls = [
            {"id": call.id, "type": "function",
             "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))}}
            for call in reply.calls
        ]  # fmt: skip
        use = MessageMetrics(
            input_tokens=reply.input_tokens, output_tokens=reply.output_tokens,
            total_tokens=reply.input_tokens + reply.output_tokens,
        )  # fmt: skip
        yield ModelResponse(role="assistant", tool_calls=calls, response_usage=use)


class TestAgno(BridgeContract):
    question_call = ToolUse("choose", {"question": "Which colour?"})
    can = frozenset(
        ("thoughts", "approvals", "edited_arguments", "plans", "questions", "mcp", "images",
         "usage", "models", "parallel_calls", "fork", "editor_tools")
    )  # fmt: skip

    async def make_agent(self, script: Script, **options: Any):
        @tool(requires_user_input=True, user_input_fields=["answer"])
        async def choose(question: str, answer: str) -> str:
            """Ask the user."""
            return answer

        guarded = [tool(requires_confirmation=True)(each) for each in self.tools.guarded]
        agent = Agent(
            model=Scripted(script=script), tools=[*self.tools.plain, *guarded, choose],
            telemetry=False,
        )  # fmt: skip
        return as_agent(agent, **options)


class TestTeam(BridgeContract):
    """What is special in teams: members are subagents, the rest is that of agents."""

    can = frozenset(("thoughts", "subagents", "fork", "usage"))
    subagent_call = ToolUse("delegate_task_to_member", {"member_id": "helper", "task": "word-task"})
    shared = ("subagent", "history_is_replayed", "cancel_while_a_tool", "rate_limit", "arrive_in")

    async def make_agent(self, script: Script, **options: Any):
        def agent(**more):
            return dict(
                model=Scripted(script=script), tools=self.tools.plain, telemetry=False, **more
            )

        helper = Agent(name="helper", id="helper", **agent())
        return as_agent(Team(name="lead", members=[helper], **agent()), **options)


for name in dir(BridgeContract):
    if name.startswith("test_") and not any(word in name for word in TestTeam.shared):
        setattr(TestTeam, name, None)


# What only this framework has.


async def test_prompt_that_the_provider_refuses_is_forgotten():
    script = Script(Reply(text=("One.",)), Reply(failure="context_length"), Reply(text=("Three.",)))
    async with TestAgno().connected(script) as client:
        session = await client.session()
        await client.turn(session, "word-one")
        await client.ended(session, "word-two")
        assert (await client.turn(session, "word-three")).text == "Three."
    assert "word-two" in script.requests[1]
    assert "word-one" in script.requests[2]
    assert "word-two" not in script.requests[2]


async def test_external_tools_modes_and_dependencies():
    @tool(external_execution=True)
    def deploy(where: str) -> str:
        """Deploy."""
        raise AssertionError("agno does not run it")

    async def work(where: str) -> str:
        if where == "moon":
            raise ValueError("word-far")
        return f"word-deployed to {where}"

    calls = (ToolUse("deploy", {"where": "oslo"}), ToolUse("deploy", {"where": "moon"}))
    script = Script(Reply(calls=calls), Reply(text=("Done.",)))
    agent = Agent(
        model=Scripted(script=script), tools=[deploy], telemetry=False,
        add_dependencies_to_context=True,
    )  # fmt: skip
    bridge = as_agent(
        agent, modes={"plain": "word-mode"},
        settings={"external": {"deploy": work}, "dependencies": {"key": "word-dependency"}},
    )  # fmt: skip
    async with TestAgno().connected(script, agent=bridge) as client:
        turn = await client.turn(await client.session(), "go")
        assert turn.text == "Done."
        assert [call.status for call in turn.tool_calls] == ["completed", "failed"]
    assert "word-mode" in script.requests[0]
    assert "word-dependency" in script.requests[0]
    assert "word-deployed to oslo" in script.requests[1]
    assert "word-far" in script.requests[1]


async def test_sessions_are_in_the_database_of_the_agent():
    script = Script(*(Reply(text=(f"{number}.",)) for number in range(4)))
    db = InMemoryDb()
    agent = Agent(model=Scripted(script=script), db=db, telemetry=False)
    async with TestAgno().connected(script, agent=as_agent(agent)) as client:
        session = await client.session()
        await client.turn(session, "word-one")
        copy = await client.agent.fork_session(session.id, session.cwd)
        await client.turn(copy, "word-copy")
        await client.turn(session, "word-two")
        await client.turn(copy, "word-more")
        assert db.get_session(session.id, deserialize=False), "it has the id of our session"
    assert "word-one" in script.requests[1]
    assert "word-one" in script.requests[2]
    assert "word-copy" not in script.requests[2]
    assert "word-one" in script.requests[3]
    assert "word-copy" in script.requests[3]
    assert "word-two" not in script.requests[3]
