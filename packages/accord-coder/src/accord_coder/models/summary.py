"""Compaction: the model summarises the conversation and continues from the summary."""

from __future__ import annotations

from collections.abc import Sequence

from accord import ContentBlock, EmbeddedResource, ResourceLink
from accord_coder.messages import Answer, Message, Prompt, Results
from accord_coder.models.base import Finished, Model, ModelError, Request, Text

# Characters at the end of a conversation that are kept.
_KEPT_CHARACTERS = 20_000
# Characters of one message in the text to summarise.
_MAX_MESSAGE_CHARACTERS = 4_000
_KEPT_TURNS = 3  # kept if the model cannot summarise
_CHARS_A_TOKEN = 4

SUMMARISE = (
    "You summarise the conversation of a user and a coding agent, so that the agent can continue "
    "from your summary alone. State what the user wants, in their words where these matter; what "
    "was found and decided, and why; which files were read, changed or made, by path; what "
    "failed; and what is left to do. No preamble, no advice, no closing words."
)
_OPENING = "Summary of the conversation so far:\n\n"


class Summary:
    """A summary of the beginning of a conversation: its text and its usage."""

    def __init__(self) -> None:
        self.text = ""
        self.finished: Finished | None = None


async def summarise(messages: Sequence[Message], model: Model, hint: str = "") -> Summary:
    """Summarise the part of a conversation that will be dropped; raise `ModelError`.

    `hint` is what the user wants to keep.
    """
    head = messages[: _cut(messages)]
    transcript = _shorten("\n\n".join(map(_transcript_of, head)), model.context_size * 2)
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
        raise ModelError("The model's summary is empty.")
    return summary


def compact_messages(messages: Sequence[Message], summary: str) -> list[Message]:
    """Return the summary and the end of the conversation, which begins with a prompt."""
    at = _cut(messages)
    head, tail = messages[:at], list(messages[at:])
    first: tuple[ContentBlock, ...] = ()
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
    """Return whether compaction would keep the whole conversation."""
    return _cut(messages) == 0


def last_turns(messages: Sequence[Message]) -> list[Message]:
    """Return the last turns, for models that cannot summarise."""
    prompts = [at for at, message in enumerate(messages) if isinstance(message, Prompt)]
    return list(messages[prompts[-_KEPT_TURNS] :] if len(prompts) > _KEPT_TURNS else messages)


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Return an estimate of the tokens of messages."""
    return sum(_length(message) for message in messages) // _CHARS_A_TOKEN


def _cut(messages: Sequence[Message]) -> int:
    """Return where the kept part begins: never at results, whose tool uses would be missing."""
    at, left = len(messages), _KEPT_CHARACTERS
    while at > 0 and (left := left - _length(messages[at - 1])) >= 0:
        at -= 1
    while at < len(messages) and isinstance(messages[at], Results):
        at += 1
    if at == len(messages) and messages and isinstance(messages[-1], Prompt):
        at -= 1  # the current prompt is kept, however long
    return at


def _length(message: Message) -> int:
    match message:
        case Prompt(content):
            return sum(map(_content_length, content))
        case Answer(text=text, uses=uses):
            return len(text) + sum(len(use.arguments) for use in uses)
        case Results(results):
            return sum(_content_length(part) for result in results for part in result.content)


def _content_length(part: ContentBlock) -> int:
    return len(part) if isinstance(part, str) else len(_placeholder(part)) + _CHARS_A_TOKEN * 1000


def _transcript_of(message: Message) -> str:
    match message:
        case Prompt(content):
            return f"User: {_shorten(_text(content), _MAX_MESSAGE_CHARACTERS)}"
        case Answer(text=text, uses=uses):
            calls = [
                f"(uses {use.name}: {_shorten(use.arguments, _MAX_MESSAGE_CHARACTERS // 4)})"
                for use in uses
            ]
            return "\n".join(["Agent: " + _shorten(text, _MAX_MESSAGE_CHARACTERS), *calls])
        case Results(results):
            return "\n".join(
                f"Result of {result.name}: "
                f"{_shorten(_text(result.content), _MAX_MESSAGE_CHARACTERS)}"
                for result in results
            )


def _text(content: Sequence[ContentBlock]) -> str:
    return "\n".join(part if isinstance(part, str) else _placeholder(part) for part in content)


def _placeholder(part: ContentBlock) -> str:
    match part:
        case EmbeddedResource(uri, str() as text):
            return f"[{uri}]\n{text}"
        case ResourceLink(uri) | EmbeddedResource(uri):
            return f"[{uri}]"
        case _:
            return f"[{type(part).__name__.lower()}]"


def _shorten(text: str, max_characters: int) -> str:
    """Return the beginning and the end of a text that is too long."""
    if len(text) <= max_characters:
        return text
    begin = max_characters // 3
    return f"{text[:begin]}\n[…]\n{text[len(text) - (max_characters - begin) :]}"
