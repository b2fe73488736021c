"""The bridge to google-adk, with a scripted model; run by test_frameworks.py."""

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import FunctionTool, LongRunningFunctionTool
from google.genai import types

from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Script


class Scripted(BaseLlm):
    """A model that follows a script."""

    model: str = "scripted"
    script: Any = None

    async def generate_content_async(self, llm_request, stream=False):
        reply = self.script.reply([self.model, llm_request.contents])
        reply.raise_failure()

        def response(parts, **more):
            return LlmResponse(content=types.Content(role="model", parts=parts), **more)

        for delta in reply.thoughts:
            yield response([types.Part(text=delta, thought=True)], partial=True)
        for delta in reply.text:
            yield response([types.Part(text=delta)], partial=True)
        if reply.hangs:
            await self.script.hang()
        parts = [types.Part(text="".join(reply.thoughts), thought=True)] if reply.thoughts else []
        parts += [types.Part(text="".join(reply.text))] if reply.text else []
        parts += [
            types.Part(
                function_call=types.FunctionCall(
                    id=call.id, name=call.name, args=dict(call.arguments)
                )
            )
            for call in reply.calls
        ]
        use = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=reply.input_tokens, candidates_token_count=reply.output_tokens
        )
        yield response(parts, usage_metadata=use)


class TestAdk(BridgeContract):
    can = frozenset(
        ("thoughts", "approvals", "plans", "questions", "mcp", "images", "usage", "models",
         "parallel_calls", "fork", "editor_tools")
    )  # fmt: skip

    async def make_agent(self, script: Script, **options: Any):
        async def ask_user(question: str):
            """Ask the user."""

        guarded = [FunctionTool(each, require_confirmation=True) for each in self.tools.guarded]
        agent = LlmAgent(
            name="helper",
            model=Scripted(script=script),
            tools=[*self.tools.plain, *guarded, LongRunningFunctionTool(ask_user)],
        )
        return as_agent(agent, **options)
