"""The bridge to Microsoft's Agent Framework, with a scripted client; run by test_frameworks.py."""

from __future__ import annotations

import json
from typing import Any

import mcp.client  # noqa: F401  # takes seconds under load, which no case should wait for
from agent_framework import Agent as MsAgent
from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    ResponseStream,
    tool,
)

from accord import Agent
from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Reply, Script


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A client whose model follows a script."""

    def __init__(self, script: Script, used: list[str] | None = None):
        super().__init__()
        self.script, self.used, self.count = script, used, 0

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any):
        async def updates():
            if self.used is not None:
                self.used.append(options.get("model"))
            reply = self.script.reply([[_shown(m) for m in messages], options.get("instructions")])
            self.count += 1
            message_id = f"message-{self.count}"
            for contents in _contents(reply):
                yield ChatResponseUpdate(role="assistant", contents=contents, message_id=message_id)
            if reply.hangs:
                await self.script.hang()
            if reply.failure is not None:
                reply.raise_failure()

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates)


def _shown(message: Any) -> Any:
    return [message.role, [content.to_dict() for content in message.contents]]


def _contents(reply: Reply):
    """Yield the content of a reply in pieces: the arguments of calls, too."""
    if reply.failure is not None:
        return
    for text in reply.thoughts:
        yield [Content.from_text_reasoning(text=text)]
    for text in reply.text:
        yield [Content.from_text(text)]
    for call in reply.calls:
        text = json.dumps(call.arguments)
        half = len(text) // 2
        yield [Content.from_function_call(call.id, call.name, arguments=text[:half])]
        yield [Content.from_function_call(call.id, "", arguments=text[half:])]
    use = {"input_token_count": reply.input_tokens, "output_token_count": reply.output_tokens}
    if not reply.hangs:
        yield [Content.from_usage(use)]


class TestAgentFramework(BridgeContract):
    can = frozenset(
        ("thoughts", "approvals", "edited_arguments", "plans", "mcp", "images", "usage", "models",
         "parallel_calls", "fork", "editor_tools")
    )  # fmt: skip

    async def make_agent(self, script: Script, **options: Any) -> Agent:
        tools = [
            *(tool(each, approval_mode="never_require") for each in self.tools.plain),
            *(tool(each, approval_mode="always_require") for each in self.tools.guarded),
        ]
        agent = MsAgent(client=Scripted(script, self.models_used), name="tester", tools=tools)
        return as_agent(agent, **options)
