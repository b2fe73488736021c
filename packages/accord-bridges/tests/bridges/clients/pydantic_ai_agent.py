"""An agent of pydantic-ai; see test_clients.py for what it does."""

import asyncio
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel


async def answer(messages, info):
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        yield "written" if last.content == "ok" else "rejected"
        return
    match str(last.content).split():
        case ["wait"]:
            yield "waiting"
            await asyncio.Event().wait()
        case ["write", word]:
            arguments = f'{{"path": "note.txt", "content": "{word}"}}'
            yield {0: DeltaToolCall("write_file", arguments, tool_call_id="call-1")}
        case _:
            yield "You said "
            yield str(last.content)


agent = Agent(FunctionModel(stream_function=answer))


@agent.tool_plain(requires_approval=True)
def write_file(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content)
    return "ok"
