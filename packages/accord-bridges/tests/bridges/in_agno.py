"""The bridge to agno, with a scripted model; run by test_evaluators.py."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from agno.agent import Agent
from agno.exceptions import ModelProviderError, ModelRateLimitError
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.team import Team
from agno.tools import tool

from accord import MemoryStore, connect
from accord.transports.memory import pair
from accord_bridges import as_agent


def calls(*named: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": f"call-{name}-{n}", "type": "function",
         "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(named)
    ]  # fmt: skip


@dataclass
class Scripted(Model):
    """A model that answers with a script, and keeps what it was asked."""

    id: str = "scripted"
    script: list[Any] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

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

    async def ainvoke_stream(self, messages, *args, **more):
        self.asked.append([(m.role, m.content) for m in messages])
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        if callable(step):
            await step()
            step = ["late"]
        if isinstance(step[0], dict):
            yield ModelResponse(role="assistant", tool_calls=step)
        else:
            for word in step:
                more = {"reasoning_content": word[1:]} if word[0] == "~" else {"content": word}
                yield ModelResponse(role="assistant", **more)


@asynccontextmanager
async def connected(target, **options):
    mine, theirs = pair()
    serving = asyncio.create_task(as_agent(target, **options).run(transport=theirs))
    async with asyncio.timeout(20), connect(mine, permissions=options.pop("allow", None)) as found:
        yield found
    await serving
