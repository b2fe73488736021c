"""The bridge to agno, with a scripted model; run by test_frameworks.py."""

import json
from dataclasses import dataclass
from typing import Any

import agno.tools.mcp  # noqa: F401  # takes seconds under load, which no case should wait for
import fastmcp.client  # noqa: F401  # as above
from agno.agent import Agent
from agno.models.base import Model
from agno.models.message import MessageMetrics
from agno.models.response import ModelResponse
from agno.team import Team
from agno.tools import tool

from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Script, ToolUse


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
