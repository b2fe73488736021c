"""The model that is built in: it understands plain requests, one or several in a prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from accord import ContentBlock
from accord_coder.loop.instructions import says_plan_mode
from accord_coder.loop.messages import Message, Prompt, Results, ToolResult, ToolUse
from accord_coder.models.base import Finished, Model, Piece, Request, Text, Thought
from accord_coder.models.embedded.place import Place
from accord_coder.models.embedded.plan import recipe_for
from accord_coder.models.embedded.recipe import Found, Say, Think
from accord_coder.models.embedded.understanding import Understood, understand

__all__ = ("Embedded",)

_LOOKS_BACK = 3  # prompts in which the file that `it` means is looked for


class Embedded(Model):
    """Answers the same to the same, wherever it runs."""

    name = "embedded"
    context_size = 1_000_000
    can_summarise = False

    def __init__(self) -> None:
        self._last: tuple[tuple[tuple[ContentBlock, ...], ...], Understood] | None = None

    async def answer(self, request: Request) -> AsyncIterator[Piece]:
        """Go on with the recipe of the last prompt, from where the results end."""
        prompts, results = _since_prompt(request.messages)
        tools = frozenset(tool.name for tool in request.tools)
        # Approval ends plan mode; the recipe has to go the same way again, though.
        planning = says_plan_mode(request.instructions)
        if results:
            planning = results[0].name == "exit_plan"
        recipe = recipe_for(self._understood(prompts), tools, planning=planning)
        at = 0
        spoke = thought = False
        told: Found = ()
        while True:
            try:
                step = recipe.send(told) if told else next(recipe)
            except StopIteration:
                yield Finished(reason="end")
                return
            told = ()
            match step:
                case Say(text) if at == len(results):
                    yield Text(f"\n\n{text}" if spoke else text)
                    spoke = True
                case Think(text) if at == len(results):
                    yield Thought(f"\n\n{text}" if thought else text)
                    thought = True
                case Say() | Think():
                    pass
                case uses:
                    told = tuple(results[at : at + len(uses)])
                    at += len(told)
                    if len(told) == len(uses):
                        if any(use.name != r.name for use, r in zip(uses, told, strict=True)):
                            yield Text("I lost my place in what I was doing; please ask again.")
                            yield Finished(reason="end")
                            return
                        continue
                    start = len(request.messages)
                    for number, use in enumerate(uses):
                        arguments = msgspec.json.encode(use.arguments).decode()
                        yield ToolUse(f"use-{start}-{number}", use.name, arguments)
                    yield Finished(reason="tools")
                    return

    def _understood(self, prompts: tuple[tuple[ContentBlock, ...], ...]) -> Understood:
        """Return what the last prompt means; kept, since a turn asks for it again and again."""
        if self._last is None or self._last[0] != prompts:
            self._last = (prompts, _read(prompts))
        return self._last[1]


def _read(prompts: tuple[tuple[ContentBlock, ...], ...]) -> Understood:
    before: Place | None = None
    for content in prompts[:-1]:
        before = understand(content, before).last_place or before
    return understand(prompts[-1], before) if prompts else Understood()


def _since_prompt(
    messages: Sequence[Message],
) -> tuple[tuple[tuple[ContentBlock, ...], ...], list[ToolResult]]:
    """Return the last prompts, and what tools have given since the very last."""
    results: list[ToolResult] = []
    prompts: list[tuple[ContentBlock, ...]] = []
    for message in messages:
        match message:
            case Prompt(content):
                prompts.append(content)
                results.clear()
            case Results(found):
                results += found
            case _:
                pass
    return tuple(prompts[-_LOOKS_BACK:]), results
