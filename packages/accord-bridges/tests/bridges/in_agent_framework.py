"""The bridge to Microsoft's Agent Framework, with a scripted client; run by test_frameworks.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import mcp.client  # noqa: F401  # takes seconds under load, which no case should wait for
import pytest
from agent_framework import Agent as MsAgent
from agent_framework import (
    AgentResponse,
    AgentResponseUpdate,
    BaseAgent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    HistoryProvider,
    ResponseStream,
    WorkflowBuilder,
    tool,
)
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from openai import AsyncOpenAI

from accord import Agent
from accord_bridges import as_agent
from accord_bridges.testing import _PNG, BridgeContract, Reply, Script, ToolUse


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


class TestOpenAi(BridgeContract):
    """The same with the framework's clients of OpenAI, as far as it differs."""

    can = frozenset(("approvals", "usage"))
    has_server = True
    client_class: Any = OpenAIChatCompletionClient

    async def make_agent(self, script: Script, **options: Any) -> Agent:
        client = AsyncOpenAI(base_url=self.server.url, api_key="none", max_retries=0)
        tools = [
            *(tool(each, approval_mode="never_require") for each in self.tools.plain),
            *(tool(each, approval_mode="always_require") for each in self.tools.guarded),
        ]
        agent = MsAgent(
            client=self.client_class("scripted", async_client=client), tools=tools,
            default_options={"store": False},
        )  # fmt: skip
        return as_agent(agent, **options)


class TestResponses(TestOpenAi):
    client_class = OpenAIChatClient


_SAME = ("is_a_readable", "too_long", "refusal", "several", "two_calls", "tool_hangs",
         "user_is_asked", "tokens")  # fmt: skip
for _name in dir(BridgeContract):
    if _name.startswith("test_") and not any(word in _name for word in _SAME):
        setattr(TestOpenAi, _name, None)
        setattr(TestResponses, _name, None)


# What only this framework has.


def served(script: Script, agent: Any, **more: Any):
    permissions = more.pop("permissions", None)
    agent = as_agent(agent, **more)
    return TestAgentFramework().connected(script, permissions=permissions, agent=agent)


async def test_prompt_that_the_provider_refuses_is_forgotten():
    script = Script(Reply(text=("One.",)), Reply(failure="context_length"), Reply(text=("Three.",)))
    async with served(script, MsAgent(client=Scripted(script))) as client:
        session = await client.session()
        await client.turn(session, "word-one")
        await client.ended(session, "word-two")
        assert (await client.turn(session, "word-three")).text == "Three."
    assert "word-two" in script.requests[1]
    assert "word-one" in script.requests[2]
    assert "word-two" not in script.requests[2]


class Kept(HistoryProvider):
    """A history that is not in the session."""

    def __init__(self) -> None:
        super().__init__("kept")
        self.messages: dict[str | None, list[Any]] = {}

    async def get_messages(self, session_id: str | None, **more: Any) -> list[Any]:
        return list(self.messages.get(session_id, ()))

    async def save_messages(self, session_id: str | None, messages: Sequence[Any], **more: Any):
        self.messages.setdefault(session_id, []).extend(messages)


async def test_cancelled_turn_is_in_the_history_of_the_agent():
    contract = TestAgentFramework()
    waits = ToolUse("wait_forever", {"what": "word-event"})
    script = Script(Reply(text=("word-said",), calls=(waits,)), Reply(text=("Here.",)))
    tools = [tool(each, approval_mode="never_require") for each in contract.tools.plain]
    kept = Kept()
    agent = MsAgent(client=Scripted(script), tools=tools, context_providers=[kept])
    async with contract.connected(script, agent=as_agent(agent)) as client:
        session = await client.session()
        async with session.prompt("word-first") as turn:
            await contract.tools.until_running("wait_forever")
            await turn.cancel()
            await turn.wait()
        await client.turn(session, "word-second")
        assert list(kept.messages) == [session.id]
    for word in ("word-first", "word-said", "word-event", "was cancelled"):
        assert script.requests[1].count(word) >= 1, word
    assert script.requests[1].count("word-first") == 1


async def test_modes_and_arguments_of_the_author_reach_the_model_and_the_tools():
    def where(ctx: FunctionInvocationContext) -> str:
        """Say where."""
        return f"in {ctx.kwargs['place']}"

    script = Script(Reply(calls=(ToolUse("where"),)), Reply(text=("Done.",)))
    agent = MsAgent(
        client=Scripted(script), instructions="word-own",
        tools=[tool(where, approval_mode="never_require")],
    )  # fmt: skip
    async with served(
        script, agent, modes={"plain": "word-mode"},
        settings={"function_invocation_kwargs": lambda run: {"place": run.cwd}},
    ) as client:  # fmt: skip
        turn = await client.turn(await client.session(), "go")
        assert f"in {client.folder}" in str(turn.tool_calls[0].content)
    assert "word-own" in script.requests[0]
    assert "word-mode" in script.requests[0]


class Playing(BaseAgent):
    """An agent without a model, which replies with given updates."""

    def __init__(self, *updates: Any) -> None:
        super().__init__(name="player")
        self.updates = updates

    def run(self, messages: Any = None, *, stream: bool = False, session: Any = None, **more: Any):
        assert not more, f"it takes no {more}"

        async def play():
            for update in self.updates:
                yield update

        return ResponseStream(play(), finalizer=AgentResponse.from_updates)


def update(*contents: Content, message_id: str = "m1", **more: Any) -> AgentResponseUpdate:
    return AgentResponseUpdate(role="assistant", contents=contents, message_id=message_id, **more)


async def test_updates_of_any_agent_are_shown():
    image = Content.from_data(_PNG, "image/png")
    script = Script()
    agent = Playing(
        update(Content.from_text("Hel")),
        update(Content("text", text="Hello.", merge_mode="replace")),
        update(Content.from_shell_tool_call(call_id="s1", commands=["ls"])),
        update(Content("shell_tool_result", call_id="s1", outputs=[Content.from_text("a.txt")])),
        update(Content.from_function_call("c1", "look", arguments={"at": "b"}, hosted=True)),
        update(Content.from_function_result("c1", result="seen", exception="it broke")),
        update(image, message_id="m2"),
        update(Content.from_text("More."), message_id="m2", finish_reason="length"),
    )
    async with served(script, agent) as client:
        session = await client.session()
        turn, error = await client.ended(session, "go")
        assert (turn.stop_reason, error) == ("max_tokens", None)
        messages = [m for m in session.transcript.messages if m.role == "agent"]
        assert messages[0].text == "Hello."
        assert messages[-1].text == "More."
        assert any(getattr(p, "data", None) == _PNG for m in messages for p in m.content)
        shell, look = turn.tool_calls
        assert (shell.kind, shell.status, "a.txt" in str(shell.content)) == (
            "execute", "completed", True,
        )  # fmt: skip
        assert (look.raw_input, look.status) == ({"at": "b"}, "failed")


async def test_workflows_are_refused_because_sessions_would_share_them():
    agent = MsAgent(client=Scripted(Script()), name="one")
    workflow = WorkflowBuilder(start_executor=agent).build()
    with pytest.raises(TypeError, match="would share"):
        as_agent(workflow.as_agent())
    with pytest.raises(TypeError, match=r"agent_framework.*Workflow"):
        as_agent(workflow)
    with pytest.raises(TypeError, match="whose model runs here"):
        as_agent(Playing(), models=["a"])
