"""Compaction: the model tells in short what was said, and goes on with that."""

from __future__ import annotations

from collections.abc import Sequence

from accord import Content
from accord_coder.loop.messages import Answer, Message, Prompt, Results
from accord_coder.models.base import Finished, Model, ModelError, Request, Text

__all__ = (
    "SUMMARISE",
    "Summary",
    "compacted",
    "last_turns",
    "nothing_to_drop",
    "size_of",
    "summarise",
)

# Characters of the end of a conversation that stay word for word.
_KEPT = 20_000
# Characters that one message has in what is summarised.
_LONGEST = 4_000
_TURNS = 3  # that stay where nobody can summarise
_CHARS_A_TOKEN = 4

SUMMARISE = (
    "You summarise the conversation of a user and a coding agent, so that the agent can go on "
    "from your summary alone. Say what the user wants, in their words where these matter; what "
    "was found and decided, and why; which files were read, changed or made, by path; what "
    "failed; and what is left to do. No preamble, no advice, no closing words."
)
_OPENING = "Summary of the conversation so far:\n\n"


class Summary:
    """What a model makes of the beginning of a conversation: its text, and what that took."""

    def __init__(self) -> None:
        self.text = ""
        self.finished: Finished | None = None


async def summarise(messages: Sequence[Message], model: Model, hint: str = "") -> Summary:
    """Have the model tell in short what will be dropped; raises `ModelError`.

    `hint` is what the user wants to be kept above all.
    """
    head = messages[: _cut(messages)]
    transcript = _shortened("\n\n".join(map(_told, head)), model.context_size * 2)
    ask = f"{transcript}\n\n---\n\nSummarise this conversation."
    if hint:
        ask += f" Above all, keep this: {hint}"
    summary = Summary()
    request = Request(instructions=SUMMARISE, messages=(Prompt((ask,)),))
    async for piece in model.answer(request):
        match piece:
            case Text(text):
                summary.text += text
            case Finished():
                summary.finished = piece
            case _:
                pass
    if not summary.text.strip():
        raise ModelError("The model gives no summary.")
    return summary


def compacted(messages: Sequence[Message], summary: str) -> list[Message]:
    """Return the summary and the end of the conversation, which begins with a prompt again."""
    at = _cut(messages)
    head, tail = messages[:at], list(messages[at:])
    first: tuple[Content, ...] = ()
    match tail:
        case [Prompt(content), *_]:
            first = content
            del tail[0]
        case _ if not any(isinstance(message, Prompt) for message in tail):
            first = next((m.content for m in reversed(head) if isinstance(m, Prompt)), ())
        case _:
            pass
    return [Prompt((_OPENING + summary, *first)), *tail]


def nothing_to_drop(messages: Sequence[Message]) -> bool:
    """Tell whether all of a conversation would stay word for word."""
    return _cut(messages) == 0


def last_turns(messages: Sequence[Message]) -> list[Message]:
    """Return the last turns, for models that cannot summarise."""
    prompts = [at for at, message in enumerate(messages) if isinstance(message, Prompt)]
    return list(messages[prompts[-_TURNS] :] if len(prompts) > _TURNS else messages)


def size_of(messages: Sequence[Message]) -> int:
    """Return about how many tokens messages are."""
    return sum(_length(message) for message in messages) // _CHARS_A_TOKEN


def _cut(messages: Sequence[Message]) -> int:
    """Return where the part begins that stays: never with results, whose uses would be gone."""
    at, left = len(messages), _KEPT
    while at > 0 and (left := left - _length(messages[at - 1])) >= 0:
        at -= 1
    while at < len(messages) and isinstance(messages[at], Results):
        at += 1
    if at == len(messages) and messages and isinstance(messages[-1], Prompt):
        at -= 1  # what the user has just said stays, however long
    return at


def _length(message: Message) -> int:
    match message:
        case Prompt(content):
            return sum(map(_content_length, content))
        case Answer(text=text, uses=uses):
            return len(text) + sum(len(use.arguments) for use in uses)
        case Results(results):
            return sum(_content_length(part) for result in results for part in result.content)


def _content_length(part: Content) -> int:
    return len(part) if isinstance(part, str) else len(_worded(part)) + _CHARS_A_TOKEN * 1000


def _told(message: Message) -> str:
    match message:
        case Prompt(content):
            return f"User: {_shortened(_text(content), _LONGEST)}"
        case Answer(text=text, uses=uses):
            calls = [
                f"(uses {use.name}: {_shortened(use.arguments, _LONGEST // 4)})" for use in uses
            ]
            return "\n".join(["Agent: " + _shortened(text, _LONGEST), *calls])
        case Results(results):
            return "\n".join(
                f"Result of {result.name}: {_shortened(_text(result.content), _LONGEST)}"
                for result in results
            )


def _text(content: Sequence[Content]) -> str:
    return "\n".join(part if isinstance(part, str) else _worded(part) for part in content)


def _worded(part: Content) -> str:
    from accord import Link, Resource

    match part:
        case Resource(uri, str() as text):
            return f"[{uri}]\n{text}"
        case Link(uri) | Resource(uri):
            return f"[{uri}]"
        case _:
            return f"[{type(part).__name__.lower()}]"


def _shortened(text: str, most: int) -> str:
    """Return the beginning and the end of a text that is too long."""
    if len(text) <= most:
        return text
    begin = most // 3
    return f"{text[:begin]}\n[…]\n{text[len(text) - (most - begin) :]}"
