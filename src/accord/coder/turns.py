"""One turn: the model answers, its tools are used, it answers again, until it is done."""

from __future__ import annotations

from accord import RequestError, Turn
from accord.coder.carry import carry_out
from accord.coder.conversation import Answer, Prompt, ToolUse, repaired
from accord.coder.models.base import Finished, Model, ModelError, Request, Text, Thought
from accord.coder.work import Work

__all__ = ("take_turn",)


async def take_turn(turn: Turn, work: Work, model: Model, instructions: str) -> str:
    """Let the model work on a prompt; return why it stopped."""
    work.messages = repaired(work.messages)
    work.messages.append(Prompt(turn.content))
    for _ in range(work.settings.max_requests):
        answer, reason = await _answer(turn, work, model, instructions)
        work.messages.append(answer)
        if not answer.uses:
            return {"max_tokens": "max_tokens", "refusal": "refusal"}.get(reason, "end_turn")
        work.messages.append(await carry_out(answer.uses, turn, work))
    return "max_turn_requests"


async def _answer(turn: Turn, work: Work, model: Model, instructions: str) -> tuple[Answer, str]:
    """Show the answer as it comes, and return it whole with why it ended."""
    request = Request(
        instructions=instructions,
        messages=tuple(work.messages),
        tools=[tool.spec for tool in work.tools.values()],
    )
    texts: list[str] = []
    uses: list[ToolUse] = []
    finished: Finished | None = None
    turn.next_message()
    try:
        async for piece in model.answer(request):
            match piece:
                case Text(text):
                    texts.append(text)
                    await turn.say(text)
                case Thought(text):
                    await turn.think(text)
                case ToolUse():
                    uses.append(piece)
                case Finished():
                    finished = piece
    except ModelError as error:
        raise RequestError(str(error)) from error
    native = None if finished is None else finished.native
    answer = Answer(text="".join(texts), uses=tuple(uses), native=native)
    return answer, "end" if finished is None else finished.reason
