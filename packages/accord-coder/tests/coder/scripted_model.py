"""A model that follows the prompt literally, so that tests know what it does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from accord_coder.models.base import (
    Finished,
    Model,
    Piece,
    Prompt,
    Request,
    Results,
    Text,
    ToolResult,
    ToolUse,
)

__all__ = ("ScriptedModel", "tool_prompt")


class ScriptedModel(Model):
    """Uses the tools that the prompt names, all at once, and says "done"; see `tool_prompt`.

    `results` are those of the last prompt, `requests` are all requests that it received.
    """

    name = "scripted"
    context_size = 100_000

    def __init__(self) -> None:
        self.results: tuple[ToolResult, ...] = ()
        self.requests: list[Request] = []

    async def answer(self, request: Request) -> AsyncIterator[Piece]:
        self.requests.append(request)
        last = request.messages[-1]
        match last:
            case Prompt(content=(str() as text, *_)) if text.startswith("["):
                self.results = ()
                for at, (name, arguments) in enumerate(msgspec.json.decode(text)):
                    yield ToolUse(f"{len(request.messages)}-{at}", name, arguments)
                yield Finished(reason="tools")
            case Results(results):
                self.results = results
                yield Text("done")
                yield Finished(reason="end")
            case _:
                yield Text("nothing to do")
                yield Finished(reason="end")


def tool_prompt(uses: Sequence[tuple[str, dict[str, Any] | str]]) -> str:
    """Return the prompt that makes `ScriptedModel` use these tools. Arguments can be JSON text."""
    written = [
        (name, given if isinstance(given, str) else msgspec.json.encode(given).decode())
        for name, given in uses
    ]
    return msgspec.json.encode(written).decode()
