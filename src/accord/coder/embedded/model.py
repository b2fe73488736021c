"""The model that is built in: it understands plain requests, one or several in a prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from accord.coder.conversation import Message, Prompt, Results, ToolResult, ToolUse
from accord.coder.embedded.recipe import Say, Use
from accord.coder.embedded.requests import recipe_for
from accord.coder.models.base import Finished, Model, Piece, Request, Text

__all__ = ("Embedded",)


class Embedded(Model):
    """Answers the same to the same, wherever it runs."""

    name = "embedded"
    context_size = 1_000_000

    async def answer(self, request: Request) -> AsyncIterator[Piece]:
        """Go on with the recipe of the last prompt, from where the results end."""
        prompt, results = _since_prompt(request.messages)
        recipe = recipe_for(prompt)
        said = used = 0
        told: ToolResult | None = None
        while True:
            try:
                step = recipe.send(told)
            except StopIteration:
                yield Finished(reason="end")
                return
            told = None
            match step:
                case Say(text):
                    said += 1
                    if used == len(results):
                        yield Text(text)
                case Use(name, arguments):
                    used += 1
                    if used <= len(results):
                        told = results[used - 1]
                        continue
                    use_id = f"use-{len(request.messages)}"
                    yield ToolUse(use_id, name, msgspec.json.encode(arguments).decode())
                    yield Finished(reason="tools")
                    return


def _since_prompt(messages: Sequence[Message]) -> tuple[str, list[ToolResult]]:
    """Return the text of the last prompt, and what tools have given since."""
    results: list[ToolResult] = []
    prompt = ""
    for message in messages:
        match message:
            case Prompt(content):
                prompt = "\n".join(part for part in content if isinstance(part, str))
                results.clear()
            case Results(found):
                results += found
            case _:
                pass
    return prompt, results
