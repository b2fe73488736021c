"""An agent of the OpenAI Agents SDK; see test_clients.py for what it does."""

import asyncio
import json
from pathlib import Path

import agents
from agents import Agent, Model, function_tool
from openai.types import responses as r

agents.set_tracing_disabled(True)


def text_of(item):
    content = item.get("content")
    return content if isinstance(content, str) else content[0]["text"]


class Scripted(Model):
    """Answers by the last message."""

    async def get_response(self, *arguments, **more):
        raise NotImplementedError

    async def stream_response(self, system_instructions, items, *arguments, **more):
        last = items[-1] if isinstance(items, list) else {"content": items}
        if last.get("type") == "function_call_output":
            said = "written" if last["output"] == "ok" else "rejected"
        else:
            said = text_of(last)
            match said.split():
                case ["wait"]:
                    yield delta("waiting")
                    await asyncio.Event().wait()
                case ["write", word]:
                    call = r.ResponseFunctionToolCall(
                        type="function_call", call_id="call-1", id="call-1", name="write_file",
                        arguments=json.dumps({"path": "note.txt", "content": word}),
                    )  # fmt: skip
                    yield completed(call)
                    return
                case _:
                    said = f"You said {said}"
        yield delta(said)
        part = r.ResponseOutputText(type="output_text", text=said, annotations=[])
        yield completed(
            r.ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[part]
            )
        )


def delta(text):
    return r.ResponseTextDeltaEvent(
        type="response.output_text.delta", item_id="m", output_index=0, content_index=0,
        delta=text, logprobs=[], sequence_number=0,
    )  # fmt: skip


def completed(item):
    response = r.Response(
        id="r", created_at=0, model="scripted", object="response", output=[item],
        parallel_tool_calls=False, tool_choice="auto", tools=[],
    )  # fmt: skip
    return r.ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


@function_tool(needs_approval=True)
def write_file(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content)
    return "ok"


agent = Agent(name="scripted", model=Scripted(), tools=[write_file])
