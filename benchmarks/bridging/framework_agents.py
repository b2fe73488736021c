"""Agents of frameworks whose models say `token ` so often as the prompt's number says.

`AGENTS` has them by the names of the kinds: each makes the object that `accord run` serves, and a
coroutine function that runs it without a bridge and reads its events. The models cost next to
nothing: what is measured are the frameworks, and what is around them.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

TOKEN = "token "
Bare = Callable[[str], Awaitable[int]]  # returns the number of deltas


def function() -> tuple[Any, Bare]:
    """Return an async function."""

    async def answer(prompt: str) -> AsyncIterator[str]:
        for _ in range(int(prompt)):
            yield TOKEN

    async def bare(prompt: str) -> int:
        count = 0
        async for _ in answer(prompt):
            count += 1
        return count

    return answer, bare


def pydantic_ai() -> tuple[Any, Bare]:
    """Return an agent of pydantic-ai."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import PartDeltaEvent, TextPartDelta
    from pydantic_ai.models.function import FunctionModel

    async def stream(messages: list[Any], info: Any) -> AsyncIterator[str]:
        for _ in range(_number(messages[-1].parts[-1].content)):
            yield TOKEN

    agent = Agent(FunctionModel(stream_function=stream), name="tester")

    async def bare(prompt: str) -> int:
        count = 1  # the first one starts the part

        async def show(ctx: Any, events: Any) -> None:
            nonlocal count
            async for event in events:
                if type(event) is PartDeltaEvent and type(event.delta) is TextPartDelta:
                    count += 1

        await agent.run(prompt, event_stream_handler=show)
        return count

    return agent, bare


def openai_agents() -> tuple[Any, Bare]:
    """Return an agent of the OpenAI Agents SDK."""
    import agents
    from agents import Agent, Model, Runner
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
        ResponseOutputMessage,
        ResponseOutputText,
        ResponseTextDeltaEvent,
        ResponseUsage,
    )
    from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

    agents.set_tracing_disabled(disabled=True)

    class Tokens(Model):
        async def get_response(self, *given: Any, **more: Any) -> Any:
            raise NotImplementedError

        async def stream_response(
            self, system: Any, given: Any, *rest: Any, **more: Any
        ) -> AsyncIterator[Any]:
            prompt = given if isinstance(given, str) else given[-1]["content"]
            number = _number(prompt if isinstance(prompt, str) else prompt[-1]["text"])
            for at in range(number):
                yield ResponseTextDeltaEvent.model_construct(
                    type="response.output_text.delta", delta=TOKEN, item_id="m", output_index=0,
                    content_index=0, sequence_number=at, logprobs=[],
                )  # fmt: skip
            text = ResponseOutputText(type="output_text", text=TOKEN * number, annotations=[])
            message = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
            details = InputTokensDetails.model_construct(cached_tokens=0, cache_write_tokens=0)
            usage = ResponseUsage(
                input_tokens=1, output_tokens=number, total_tokens=number + 1,
                input_tokens_details=details,
                output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
            )  # fmt: skip
            response = Response(
                id="r", created_at=0, model="tokens", object="response", output=[message],
                parallel_tool_calls=False, tool_choice="auto", tools=[], usage=usage,
            )  # fmt: skip
            yield ResponseCompletedEvent(
                type="response.completed", response=response, sequence_number=number
            )

    agent = Agent(name="tester", model=Tokens())

    async def bare(prompt: str) -> int:
        count = 0
        result = Runner.run_streamed(agent, prompt)
        async for event in result.stream_events():
            if (
                event.type == "raw_response_event"
                and event.data.type == "response.output_text.delta"
            ):
                count += 1
        return count

    return agent, bare


def agno() -> tuple[Any, Bare]:
    """Return an agent of agno."""
    from dataclasses import dataclass

    from agno.agent import Agent
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    @dataclass
    class Tokens(Model):
        id: str = "tokens"

        def invoke(self, *given: Any, **more: Any) -> Any:
            raise NotImplementedError

        ainvoke = invoke_stream = invoke

        def _parse_provider_response(self, response: Any, **more: Any) -> Any:
            return response

        def _parse_provider_response_delta(self, response: Any) -> Any:
            return response

        async def ainvoke_stream(
            self, messages: Any, assistant_message: Any, *given: Any, **more: Any
        ) -> AsyncIterator[Any]:
            for _ in range(_number(messages[-1].content)):
                yield ModelResponse(role="assistant", content=TOKEN)

    agent = Agent(model=Tokens(), telemetry=False)

    async def bare(prompt: str) -> int:
        count = 0
        async for event in agent.arun(prompt, stream=True, stream_events=True):
            if event.event == "RunContent":
                count += 1
        return count

    return agent, bare


def google_adk() -> tuple[Any, Bare]:
    """Return an agent of google-adk."""
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    class Tokens(BaseLlm):
        model: str = "tokens"

        async def generate_content_async(
            self, llm_request: Any, stream: bool = False
        ) -> AsyncIterator[Any]:
            number = _number(llm_request.contents[-1].parts[-1].text)

            def response(text: str, **more: Any) -> LlmResponse:
                content = types.Content(role="model", parts=[types.Part(text=text)])
                return LlmResponse(content=content, **more)

            for _ in range(number):
                yield response(TOKEN, partial=True)
            yield response(TOKEN * number)

    agent = LlmAgent(name="tester", model=Tokens())

    async def bare(prompt: str) -> int:
        runner = InMemoryRunner(agent, app_name="bare")
        session = await runner.session_service.create_session(app_name="bare", user_id="user")
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        count = 0
        async for event in runner.run_async(
            user_id="user", session_id=session.id, new_message=message, run_config=config
        ):
            if event.partial:
                count += 1
        return count

    return agent, bare


def deepagents() -> tuple[Any, Bare]:
    """Return a deep agent of LangChain, which is a graph of LangGraph."""
    from deepagents import create_deep_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langgraph.checkpoint.memory import MemorySaver

    class Tokens(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "tokens"

        def bind_tools(self, tools: Any, **more: Any) -> Any:
            return self

        def _generate(self, messages: Any, *given: Any, **more: Any) -> ChatResult:
            text = TOKEN * _number(messages[-1].text)
            return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

        async def _astream(self, messages: Any, *given: Any, **more: Any) -> AsyncIterator[Any]:
            for _ in range(_number(messages[-1].text)):
                yield ChatGenerationChunk(message=AIMessageChunk(content=TOKEN, id="m"))

    graph = create_deep_agent(model=Tokens(), checkpointer=MemorySaver())

    async def bare(prompt: str) -> int:
        given: Any = {"messages": [{"role": "user", "content": prompt}]}
        config: Any = {"configurable": {"thread_id": f"bare {prompt}"}}
        count = 0
        async for _, mode, event in graph.astream(
            given, config, stream_mode=["messages", "updates"], subgraphs=True
        ):
            if mode == "messages" and event[0].content == TOKEN:
                count += 1
        return count

    return graph, bare


def _number(prompt: Any) -> int:
    """Return the number in a prompt, which an adapter may have wrapped."""
    text = prompt if isinstance(prompt, str) else "".join(filter(_is_text, prompt))
    digits = [word for word in text.split() if word.isdigit()]
    return int(digits[-1])


def _is_text(part: Any) -> bool:
    return isinstance(part, str)


AGENTS: dict[str, Callable[[], tuple[Any, Bare]]] = {
    "function": function,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
    "agno": agno,
    "google-adk": google_adk,
    "deepagents": deepagents,
}


def serve_by_rival(name: str) -> None:
    """Serve an agent by another package, as its documentation shows."""
    if name == "pydantic-acp":
        from pydantic_acp import run_acp

        run_acp(agent=pydantic_ai()[0])
    else:
        import asyncio

        from acp import run_agent
        from deepagents_acp.server import AgentServerACP

        asyncio.run(run_agent(AgentServerACP(deepagents()[0])))


if __name__ == "__main__":
    serve_by_rival(sys.argv[1])
