"""The bridge to LangGraph, LangChain and deepagents; run by test_frameworks.py."""

import json
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.types import interrupt

from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Script


class Scripted(BaseChatModel):
    """A model that follows a script, streamed unless `whole`."""

    script: Any
    name_: str = "scripted"
    used: Any = None
    whole: bool = False

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools, **more):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **more):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **more):
        message = AIMessageChunk("")
        async for chunk in self._play(messages):
            message += chunk
        whole = AIMessage(
            message.content, tool_calls=message.tool_calls, usage_metadata=message.usage_metadata
        )
        return ChatResult(generations=[ChatGeneration(message=whole)])

    async def _astream(self, messages, stop=None, run_manager=None, **more):
        if self.whole:
            raise NotImplementedError
        async for chunk in self._play(messages):
            part = ChatGenerationChunk(message=chunk)
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=part)
            yield part

    async def _play(self, messages):
        if self.used is not None:
            self.used.append(self.name_)
        reply = self.script.reply([[m.content, getattr(m, "tool_calls", None)] for m in messages])
        reply.raise_failure()
        for text in reply.thoughts:
            yield AIMessageChunk([{"type": "reasoning", "reasoning": text, "index": 0}])
        for text in reply.text:
            yield AIMessageChunk(text)
        if reply.hangs:
            await self.script.hang()
        for index, call in enumerate(reply.calls):
            whole = json.dumps(dict(call.arguments))
            half = len(whole) // 2
            for number, args in enumerate(("", whole[:half], whole[half:])):
                piece = {
                    "index": index, "args": args, "type": "tool_call_chunk",
                    "id": None if number else call.id, "name": None if number else call.name,
                }  # fmt: skip
                yield AIMessageChunk("", tool_call_chunks=[piece])
        usage = {
            "input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
        }  # fmt: skip
        yield AIMessageChunk("", usage_metadata=usage)


class TestLangGraph(BridgeContract):
    can = frozenset(
        ("thoughts", "approvals", "edited_arguments", "plans", "questions", "subagents", "mcp",
         "images", "usage", "models", "parallel_calls", "fork", "editor_tools")
    )  # fmt: skip

    async def make_agent(self, script: Script, **options: Any):
        def make(tools, model=None):
            scripted = Scripted(script=script, name_=model or "scripted", used=self.models_used)
            helper = create_agent(scripted, list(self.tools.plain), name="helper")

            @tool
            async def ask_user(question: str) -> str:
                """Ask the user."""
                return interrupt({"question": question})

            @tool
            async def ask_helper(task: str) -> str:
                """Ask the helper."""
                done = await helper.ainvoke({"messages": [{"role": "user", "content": task}]})
                return done["messages"][-1].text

            every = [*self.tools.plain, *self.tools.guarded, ask_user, ask_helper, *tools]
            asks = HumanInTheLoopMiddleware({"write_note_file": True})
            return create_agent(scripted, every, middleware=[asks])

        return as_agent(make, **options)
