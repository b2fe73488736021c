"""One turn: the model answers, its tools are used, it answers again, until it is done."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import takewhile

from accord import AuthRequired, Content, Cost, RequestError, Tokens, Turn
from accord_coder.loop.messages import Answer, Prompt, ToolUse, repaired
from accord_coder.loop.run_tools import carry_out
from accord_coder.loop.session_state import Work
from accord_coder.models.base import (
    ContextOverflow,
    Finished,
    KeyRefused,
    Model,
    ModelError,
    Notice,
    Request,
    Text,
    Thought,
)

__all__ = ("compact", "take_turn")

# Of the model's context: fuller than that, what was said is summarised.
_FULL = 0.8
_STOPS = {"max_tokens": "max_tokens", "refusal": "refusal"}


async def take_turn(
    turn: Turn,
    work: Work,
    model: Model,
    instructions: str,
    content: tuple[Content, ...] | None = None,
) -> str:
    """Let the model work on a prompt, or on `content` in its place; return why it stopped."""
    prompt = Prompt(turn.content if content is None else content)
    work.messages = repaired(work.messages)
    work.messages.append(prompt)
    if turn.session.mcp_servers:
        from accord_coder.tools.mcp_tool import connect_servers

        await connect_servers(turn, work)
    try:
        for _ in range(work.settings.max_requests):
            answer, reason = await _fitting_answer(turn, work, model, instructions)
            if answer.text or answer.uses:
                work.messages.append(answer)
            if reason == "refusal":
                _forget(prompt, work)
            if not answer.uses:
                return _STOPS.get(reason, "end_turn")
            work.messages.append(await carry_out(answer.uses, turn, work))
    except KeyRefused as error:
        raise AuthRequired(str(error)) from error
    except ModelError as error:
        raise RequestError(str(error)) from error
    return "max_turn_requests"


def _forget(prompt: Prompt, work: Work) -> None:
    """Drop a refused prompt and what came of it: the next prompt does not build on them."""
    for at, message in enumerate(work.messages):
        if message is prompt:
            del work.messages[at:]
            return


async def _fitting_answer(
    turn: Turn, work: Work, model: Model, instructions: str
) -> tuple[Answer, str]:
    """Answer, after a compaction where the conversation is too long."""
    if work.mcp is not None:
        from accord_coder.tools.mcp_tool import offer_tools

        offer_tools(work)
    if _used(work) > _FULL * model.context_size:
        await compact(turn, work, model)
    try:
        return await _answer(turn, work, model, instructions)
    except ContextOverflow:
        if not await compact(turn, work, model):
            raise
    return await _answer(turn, work, model, instructions)


def _used(work: Work) -> int:
    """Return about how many tokens of the context the next request takes."""
    from accord_coder.models.summary import size_of

    if not work.context:  # nobody has counted yet: the session was opened again, say
        return size_of(work.messages)
    new = takewhile(lambda message: not isinstance(message, Answer), reversed(work.messages))
    return work.context + size_of(list(new))


async def _answer(turn: Turn, work: Work, model: Model, instructions: str) -> tuple[Answer, str]:
    """Show the answer as it comes, and return it whole with why it ended."""
    request = Request(
        instructions=instructions,
        messages=tuple(work.messages),
        tools=[tool.spec for tool in work.tools.values()],
        effort=work.effort,
    )
    texts: list[str] = []
    uses: list[ToolUse] = []
    finished: Finished | None = None
    turn.next_message()
    pieces = model.answer(request)
    try:
        async for piece in pieces:
            match piece:
                case Text(text):
                    texts.append(text)
                    await turn.say(text)
                case Thought(text):
                    await turn.think(text)
                case Notice(text):
                    await turn.notice(text.strip(), severity="warning")
                case ToolUse():
                    uses.append(piece)
                case Finished():
                    finished = piece
    except BaseException:
        if texts:  # the user has read it, so the model has said it
            work.messages.append(Answer(text="".join(texts)))
        raise
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
    if finished is None:
        raise ModelError("The model has ended without a word of why.")
    await _count(finished, turn, work, model)
    return _whole("".join(texts), uses, finished), finished.reason


def _whole(text: str, uses: list[ToolUse], finished: Finished) -> Answer:
    """Return the answer without the uses that it was cut off in."""
    if finished.reason in ("end", "tools"):
        return Answer(text=text, uses=tuple(uses), native=finished.native)
    return Answer(text=text, native=None if uses else finished.native)


async def _count(finished: Finished, turn: Turn, work: Work, model: Model) -> None:
    """Tell what an answer took, and how full the context is with it."""
    if finished.tokens is not None:
        turn.tokens = _added(turn.tokens, finished.tokens)
    if finished.cost is not None:
        before = 0.0 if work.cost is None else work.cost.amount
        work.cost = Cost(before + finished.cost.amount, finished.cost.currency)
    if finished.context is not None:
        work.context = finished.context
        await turn.usage(work.context, model.context_size, cost=work.cost)


def _added(before: Tokens | None, more: Tokens) -> Tokens:
    if before is None:
        return more

    def both(one: int | None, other: int | None) -> int | None:
        return None if one is None and other is None else (one or 0) + (other or 0)

    return Tokens(
        total=before.total + more.total,
        input=before.input + more.input,
        output=before.output + more.output,
        thought=both(before.thought, more.thought),
        cached_read=both(before.cached_read, more.cached_read),
        cached_write=both(before.cached_write, more.cached_write),
    )


async def compact(turn: Turn, work: Work, model: Model, *, hint: str = "") -> bool:
    """Put a summary in place of what was said, all but the end; tell whether that was possible.

    The summary is stored as that of the compaction: who reads the session again goes on with it.
    """
    from accord_coder.models.summary import (
        compacted,
        last_turns,
        nothing_to_drop,
        size_of,
        summarise,
    )

    messages = repaired(work.messages)
    if nothing_to_drop(messages):
        return False
    if turn.session.link.version == 1:  # whose clients may show no compactions
        await turn.think("Shortening what was said so far, to make room.\n")
    async with turn.compaction() as shown:
        if not model.summarises:
            work.messages = last_turns(messages)
            return len(work.messages) < len(messages)
        try:
            summary = await summarise(messages, model, hint)
        except ModelError as error:
            await shown.fail(str(error))
            return False
        await shown.summary(summary.text)
        work.messages = compacted(messages, summary.text)
    work.context = size_of(work.messages)
    took = summary.finished
    if took is not None:
        after = Finished(reason="end", tokens=took.tokens, cost=took.cost, context=work.context)
        await _count(after, turn, work, model)
    return True
