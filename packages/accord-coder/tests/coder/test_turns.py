"""Turns: compaction, token counts, and what remains of a failed turn."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from accord import (
    Compaction,
    Cost,
    McpServerStdio,
    Notice,
    RequestError,
    Thought,
    TokenUsage,
    UsageChanged,
)
from accord.installed import install_command
from accord_coder.models.base import (
    Answer,
    ContextOverflow,
    Finished,
    Message,
    Model,
    ModelError,
    Piece,
    Prompt,
    Request,
    Results,
    Text,
    ToolResult,
    ToolUse,
)
from accord_coder.session import SUMMARISE, compact_messages, last_turns, summarise
from accord_coder.settings import Settings
from coder.harness import BOTH, coder_session

Answering = Callable[[Request], str | Exception]


class Small(Model):
    """A model with a small context, which returns the result of `answering`."""

    name = "small"

    def __init__(self, answering: Answering, *, context_size: int = 1000) -> None:
        self.answering = answering
        self.context_size = context_size
        self.requests: list[Request] = []
        self.used = 10

    @property
    def summaries(self) -> list[Request]:
        return [r for r in self.requests if r.instructions == SUMMARISE]

    async def answer(self, request: Request) -> AsyncIterator[Piece]:
        self.requests.append(request)
        if request.instructions == SUMMARISE:
            said: str | Exception = "They greeted each other."
        else:
            said = self.answering(request)
        if isinstance(said, Exception):
            raise said
        yield Text(said)
        yield Finished(
            reason="end",
            tokens=TokenUsage(total=self.used, input=self.used - 5, output=5),
            context=self.used,
            cost=Cost(0.25),
        )


async def test_conversation_is_summarised_when_the_context_is_nearly_full(tmp_path: Path) -> None:
    model = Small(lambda _: "a" * 15_000)
    async with coder_session(cwd=tmp_path, model=model) as harness:
        await harness.prompt("First: " + "b" * 15_000)
        assert not model.summaries
        model.used = 900
        await harness.prompt("Second")
        assert not model.summaries
        await harness.prompt("Third")
        assert len(model.summaries) == 1
        assert "First: " in str(model.summaries[0].messages)
        reported = str(model.requests[-1].messages)
        assert "They greeted each other." in reported
        assert "Third" in reported
        assert "First: " not in reported


async def test_context_overflow_is_retried_once_after_a_summary(tmp_path: Path) -> None:
    def answering(request: Request) -> str | Exception:
        if "First" in str(request.messages) and "Second" in str(request.messages):
            return ContextOverflow("The conversation is too long for the model.")
        return "c" * 30_000

    model = Small(answering, context_size=100_000)
    async with coder_session(cwd=tmp_path, model=model) as harness:
        await harness.prompt("First")
        assert (await harness.prompt("Second")).startswith("ccc")
        assert len(model.summaries) == 1


async def test_context_overflow_after_a_summary_is_an_error(tmp_path: Path) -> None:
    too_long = ContextOverflow("The conversation is too long for the model.")
    model = Small(lambda _: too_long)
    async with coder_session(cwd=tmp_path, model=model) as harness:
        with pytest.raises(RequestError, match="too long"):
            await harness.prompt("Hello")


async def test_summary_is_counted_and_shrinks_the_context(tmp_path: Path) -> None:
    model = Small(lambda _: "a" * 30_000)
    model.used = 900
    async with coder_session(cwd=tmp_path, model=model) as harness:
        await harness.prompt("First")
        await harness.prompt("Second")
        usages = [event.usage for event in harness.events if isinstance(event, UsageChanged)]
        assert [usage.cost and usage.cost.amount for usage in usages] == [0.25, 0.5, 0.75]
        assert usages[1].used < usages[0].used


async def test_turn_continues_when_the_model_returns_no_summary(tmp_path: Path) -> None:
    model = Small(lambda _: "Fine.")
    model.used = 900

    async def no_summary(request: Request) -> AsyncIterator[Piece]:
        if request.instructions == SUMMARISE:
            raise ModelError("It is not available.")
        async for piece in Small.answer(model, request):
            yield piece

    model.answer = no_summary
    async with coder_session(cwd=tmp_path, model=model) as harness:
        assert await harness.prompt("One") == "Fine."
        assert await harness.prompt("Two") == "Fine."


@BOTH
async def test_compaction_is_shown_with_its_summary(version: int, tmp_path: Path) -> None:
    model = Small(lambda _: "a" * 30_000)
    model.used = 900
    async with coder_session(version, cwd=tmp_path, model=model) as harness:
        await harness.prompt("First")
        await harness.prompt("Second")
        shown = [event for event in harness.events if isinstance(event, Compaction)]
        assert shown[0].status == "in_progress"
        assert shown[-1].status == "completed"
        assert shown[-1].summary == ("They greeted each other.",)
        # For clients of version 1 that do not show compactions.
        thoughts = [event.text for event in harness.events if isinstance(event, Thought)]
        assert thoughts == (["Compacting the conversation.\n"] if version == 1 else [])


@BOTH
async def test_loaded_session_continues_from_the_summary(version: int, tmp_path: Path) -> None:
    model = Small(lambda _: "a" * 30_000)
    model.used = 900
    settings = Settings(data=tmp_path / "data")
    async with coder_session(version, cwd=tmp_path, model=model, settings=settings) as harness:
        await harness.prompt("First")
        await harness.prompt("Second")
        known = harness.state.messages
        session_id = harness.session.id
    again = Small(lambda _: "Good.", context_size=100_000)
    async with coder_session(
        version, cwd=tmp_path, model=again, settings=settings, load=session_id
    ) as harness:
        await harness.prompt("Third")
        assert list(again.requests[-1].messages[:-1]) == known
        assert harness.state.cost == Cost(1.0)


def conversation(turns: int, length: int) -> list[Message]:
    found: list[Message] = []
    for at in range(turns):
        use = ToolUse(f"use-{at}", "read", "{}")
        found += [
            Prompt((f"prompt {at}",)),
            Answer(text=f"answer {at}", uses=(use,)),
            Results((ToolResult(use.id, "read", ("x" * length,)),)),
            Answer(text=f"done {at}"),
        ]
    return found


@pytest.mark.parametrize("length", [10, 3000, 9000, 50_000])
@pytest.mark.parametrize("kept", [1, 2, 3, 4])
def test_kept_messages_begin_with_a_prompt_and_have_all_results(length: int, kept: int) -> None:
    messages = conversation(6, length)[: 20 + kept]
    found = compact_messages(messages, "the summary")
    assert isinstance(found[0], Prompt)
    assert "the summary" in str(found[0])
    assert "prompt 5" in str(found)
    for at, message in enumerate(found):
        if isinstance(message, Results):
            before = found[at - 1]
            assert isinstance(before, Answer)
            assert [u.id for u in before.uses] == [r.use_id for r in message.results]
        assert type(message) is not type(found[at - 1]) or at == 0
    assert len(str(found)) < 60_000 + length


async def test_messages_to_summarise_fit_into_the_context() -> None:
    model = Small(lambda _: "", context_size=2000)
    summary = await summarise(conversation(20, 50_000), model, "the name of the file")
    assert summary.text == "They greeted each other."
    (request,) = model.requests
    assert len(str(request.messages)) < 2000 * 4
    assert "the name of the file" in str(request.messages)


def test_shortened_history_has_the_last_turns() -> None:
    found = last_turns(conversation(6, 10))
    assert found[0] == Prompt(("prompt 3",))
    assert found[-1] == Answer(text="done 5")
    short = conversation(2, 10)
    assert last_turns(short) == short


async def test_model_that_cannot_summarise_keeps_the_last_turns(tmp_path: Path) -> None:
    model = Small(lambda _: "a" * 15_000)
    model.can_summarise = False
    model.used = 900
    async with coder_session(cwd=tmp_path, model=model) as harness:
        for at in range(5):
            await harness.prompt(f"Prompt {at}")
        assert not model.summaries
        reported = str(model.requests[-1].messages)
        assert "Prompt 1" not in reported
        assert "Prompt 2" in reported


async def test_messages_before_an_error_are_known_afterwards(tmp_path: Path) -> None:
    class Breaking(Small):
        async def answer(self, request: Request) -> AsyncIterator[Piece]:
            self.requests.append(request)
            yield Text("I had begun")
            if len(self.requests) == 1:
                raise ModelError("The connection broke.")
            yield Finished(reason="end")

    model = Breaking(lambda _: "")
    async with coder_session(cwd=tmp_path, model=model) as harness:
        with pytest.raises(RequestError, match="The connection broke"):
            await harness.prompt("Hello")
        await harness.prompt("Go on")
        assert model.requests[1].messages[1] == Answer(text="I had begun")


async def test_missing_mcp_library_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "accord_coder.tools.mcp_tool", None)
    model = Small(lambda _request: "Hello.")
    servers = [McpServerStdio("test", sys.executable)]
    async with coder_session(cwd=tmp_path, model=model, mcp_servers=servers) as harness:
        assert await harness.prompt("Hello") == "Hello."
        assert await harness.prompt("Hello again") == "Hello."
        (notice,) = (event for event in harness.events if isinstance(event, Notice))
        assert install_command("coder") in notice.title
