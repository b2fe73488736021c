"""What the user says while the coder works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from accord import MemoryStore, Steered
from accord_coder.models.base import (
    Answer,
    Finished,
    Model,
    Piece,
    Prompt,
    Request,
    Results,
    Text,
    ToolUse,
)
from coder.harness import BOTH, coder_session


class Waiting(Model):
    """Reads a file, and ends; before each answer it waits until `may_answer` is set."""

    name = "waiting"
    context_size = 100_000

    def __init__(self, *, reads: bool = True) -> None:
        self.reads = reads
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.requests: list[Request] = []

    async def answer(self, request: Request) -> AsyncIterator[Piece]:
        self.requests.append(request)
        self.asked.set()
        await self.may_answer.wait()
        if self.reads and len(self.requests) == 1:
            yield ToolUse("use-1", "read", '{"path": "notes.txt"}')
            yield Finished(reason="tools")
        else:
            yield Text(f"answer {len(self.requests)}")
            yield Finished(reason="end")


def told(request: Request) -> list[object]:
    """Return what the model is told: the text of prompts, and the kinds of all else."""
    return [
        message.content[0] if isinstance(message, Prompt) else type(message)
        for message in request.messages
    ]


@BOTH
async def test_model_hears_it_with_its_next_request(version: int, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember\n")
    model, store = Waiting(), MemoryStore()
    async with coder_session(version, cwd=tmp_path, model=model, store=store) as harness:
        assert harness.agent.supports("steer")
        async with harness.session.prompt("Read my notes") as turn:
            await model.asked.wait()
            assert await turn.steer("In one line, please") == Steered("injected")
            model.may_answer.set()
            assert await turn.wait() == "end_turn"
        assert told(model.requests[1]) == ["Read my notes", Answer, Results, "In one line, please"]
        # It is part of the stored conversation, too.
        loaded = await harness.agent.load_session(harness.session.id, tmp_path)
        async with loaded.prompt("And now?") as turn:
            await turn.wait()
        assert told(model.requests[2])[-2:] == [Answer, "And now?"]
        assert "In one line, please" in told(model.requests[2])


@BOTH
async def test_answer_is_not_the_end_if_something_was_said(version: int, tmp_path: Path) -> None:
    model = Waiting(reads=False)
    async with coder_session(version, cwd=tmp_path, model=model) as harness:
        async with harness.session.prompt("Hello") as turn:
            await model.asked.wait()
            await turn.steer("One more thing")
            await turn.steer("/help")
            await turn.steer("And another")
            model.may_answer.set()
            await turn.wait()
        # The command runs when the model has answered, and what follows it after it.
        assert told(model.requests[1]) == ["Hello", Answer, "One more thing"]
        assert told(model.requests[2])[-2:] == [Answer, "And another"]
        assert turn.text.index("answer 2") < turn.text.index("/compact")
        assert turn.text.index("/compact") < turn.text.index("answer 3")
