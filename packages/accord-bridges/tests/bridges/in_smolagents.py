"""The bridge to smolagents, with a scripted model; run by test_frameworks.py."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from typing import Any

import PIL.Image
import pytest
from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool
from smolagents.models import (
    ApiModel,
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
    agglomerate_stream_deltas,
)
from smolagents.monitoring import TokenUsage

from accord import Agent
from accord_bridges import as_agent
from accord_bridges.testing import _PNG, BridgeContract, Reply, Script, ToolUse

pytestmark = [pytest.mark.asyncio]


class Scripted(ApiModel):
    """A model that follows a script; a reply without calls is a final answer."""

    def __init__(self, script: Script, model_id: str = "scripted", used: list[str] | None = None):
        self.script, self.used = script, used
        super().__init__(model_id)

    def create_client(self):
        return self

    def _reply(self, messages: Any) -> Reply:
        if self.used is not None:
            self.used.append(self.model_id)
        reply = self.script.reply([[m.role, _texts(m.content)] for m in messages])
        reply.raise_failure()
        return reply

    def generate_stream(self, messages: Any, tools_to_call_from: Any = None, **more: Any):
        reply = self._reply(messages)
        calls = list(reply.calls)
        if tools_to_call_from is None:
            yield from self._code(reply)
        elif calls or reply.hangs:
            for text in reply.text:
                yield ChatMessageStreamDelta(content=text)
            for number, call in enumerate(calls):
                yield from _pieces(number, call.id, call.name, json.dumps(call.arguments))
        else:
            quoted = [json.dumps(text)[1:-1] for text in reply.text]
            answer = ['{"answer"', ': "', *quoted, '"}']
            yield from _pieces(0, "answer", "final_answer", *answer)
        if reply.hangs:
            self.script.hang_in_thread()
        yield ChatMessageStreamDelta(token_usage=TokenUsage(reply.input_tokens, reply.output_tokens))

    def _code(self, reply: Reply):
        """Say thoughts and then code, as a `CodeAgent` expects it."""
        lines = [f"print({c.name}(**{dict(c.arguments)!r}))" for c in reply.calls]
        if not lines:
            lines = [f"final_answer({''.join(reply.text)!r})"]
        text = "".join((*reply.thoughts, *(reply.text if reply.calls else ())))
        for piece in ("Tho", "ught: ", text, "\n", "<co", "de>\n", "\n".join(lines), "\n</code>"):
            yield ChatMessageStreamDelta(content=piece)

    def generate(self, messages: Any, **more: Any) -> ChatMessage:
        return agglomerate_stream_deltas(list(self.generate_stream(messages, **more)))


def _pieces(index: int, call_id: str, name: str, *pieces: str):
    for number, piece in enumerate(pieces):
        function = ChatMessageToolCallFunction(piece, "" if number else name)
        delta = ChatMessageToolCallStreamDelta(index, call_id, "function", function)
        yield ChatMessageStreamDelta(tool_calls=[delta])


def _texts(content: Any) -> Any:
    """Return the content of a message; the picture of the contract as the client has sent it."""
    if not isinstance(content, list):
        return content
    sent = PIL.Image.open(io.BytesIO(_PNG)).tobytes()
    return [
        base64.b64encode(_PNG).decode()
        if part["type"] == "image" and part["image"].tobytes() == sent
        else part
        for part in content
    ]


class TestToolCallingAgent(BridgeContract):
    can = frozenset(
        ("approvals", "edited_arguments", "plans", "subagents", "mcp", "images", "usage",
         "models", "parallel_calls", "fork", "editor_tools")
    )  # fmt: skip
    waits_in_threads = True

    async def make_agent(self, script: Script, **options: Any) -> Agent:
        tools = [tool(each) for each in self.tools.blocking.values()]
        helper = ToolCallingAgent(
            tools, Scripted(script), name="ask_helper", description="It helps."
        )
        model = Scripted(script, self.models[0], self.models_used)
        agent = ToolCallingAgent(tools, model, managed_agents=[helper])
        return as_agent(agent, settings={"ask_for": ["write_note_file"]}, **options)
