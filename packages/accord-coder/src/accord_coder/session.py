"""The state of one session: its model, its tools, and its conversation.

The conversation of a session that is opened again comes from its stored updates. A conversation
that is too long for the model is replaced by a summary that the model writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from accord import ContentBlock, Cost, EmbeddedResource, ImageContent, ResourceLink, Session
from accord.agent import CompactionUpdate, MessageUpdate, ToolCallUpdate, Update
from accord_coder.models.base import (
    Answer,
    Finished,
    Message,
    Model,
    ModelError,
    Prompt,
    Request,
    Results,
    Text,
    ToolResult,
    ToolUse,
)
from accord_coder.permissions.decision import ToolContext
from accord_coder.permissions.rules import ProjectRules
from accord_coder.settings import Settings

if TYPE_CHECKING:
    from accord.mcp import McpConnections
    from accord_coder.tools import Tool


class CoderHooks(Protocol):
    """What a session needs from its agent."""

    def model_name(self, state: CoderSession, /) -> str:
        """Return the name of the session's model."""
        ...

    async def session_model(self, state: CoderSession, /) -> Model:
        """Return the session's model, ready to answer; raise `AuthRequired` if it has no key."""
        ...

    async def set_option(self, session: Session, option_id: str, value: str | bool, /) -> None:
        """Apply an option that the user selected."""
        ...


class CoderSession(ToolContext):
    """The context of the tools, the conversation as the model knows it, the model, and the tools.

    `history_loaded` is set when `messages` contains what was stored before. `effort` is how long
    the model thinks, `context_used` the tokens in its context, `cost` that of the session so far.
    """

    def __init__(
        self, session: Session, settings: Settings, rules: ProjectRules, hooks: CoderHooks
    ) -> None:
        super().__init__(session, settings, rules)
        self.hooks = hooks
        self.messages: list[Message] = []
        self.history_loaded = False
        self.model: Model | None = None
        self.effort: str | None = None
        self.context_used = 0
        self.cost: Cost | None = None
        self.tools: dict[str, Tool[Any]] = {}
        self.mcp: McpConnections | None = None  # from the first prompt on, if there are servers
        self.mcp_reported: set[str] = set()  # the servers that the user knows to have failed
        self.lacks_mcp = False  # the package is not installed, and the user knows
        self._open_models: list[Model] = []

    def set_model(self, model: Model) -> None:
        """Use this model from the next turn on."""
        self.model = model
        self._open_models.append(model)

    def drop_model(self) -> None:
        """Open the model again before it is used: its key may have changed."""
        self.model = None

    async def aclose(self) -> None:
        """Close the models. No turn may be running."""
        while self._open_models:
            await self._open_models.pop().aclose()


# The conversation from stored updates. The model sees what it saw before: the prompts, its own
# text, and the exact results of its tools. The provider's form of an answer is not stored. Several
# tool uses of one answer become one answer each, which is equivalent.

ExpandPrompt = Callable[[tuple[ContentBlock, ...]], tuple[ContentBlock, ...] | None]


def messages_from(updates: Iterable[Update], expand: ExpandPrompt) -> list[Message]:
    """Return the messages of the model from the stored updates of a session.

    `expand` returns the content that the model received for a prompt; None if it received none,
    as for `/help`.
    """
    building = _HistoryBuilder(expand)
    for update in updates:
        match update:
            case MessageUpdate("user", _, content):
                building.prompt(content)
            case MessageUpdate("agent", _, content):
                building.answer("".join(part for part in content if isinstance(part, str)))
            case ToolCallUpdate():
                building.tool(update)
            case CompactionUpdate(status="completed", summary=tuple(summary)):
                building.compaction("".join(part for part in summary if isinstance(part, str)))
            case _:
                pass
    return building.messages()


class _HistoryBuilder:
    def __init__(self, expand: ExpandPrompt) -> None:
        self._expand = expand
        self._messages: list[Message] = []
        self._skipping = False  # the last prompt was not for the model

    def prompt(self, content: tuple[ContentBlock, ...]) -> None:
        expanded = self._expand(content)
        self._skipping = expanded is None
        if expanded is not None:
            self._messages.append(Prompt(expanded))

    def answer(self, text: str) -> None:
        if not self._skipping and text:
            self._messages.append(Answer(text=text))

    def tool(self, update: ToolCallUpdate) -> None:
        if self._skipping or update.name is UNSET:
            return  # not a tool use of the model
        use = ToolUse(update.id, update.name, _arguments(update.raw_input))
        last = self._messages[-1] if self._messages else None
        if isinstance(last, Answer) and not last.uses:
            self._messages[-1] = Answer(text=last.text, uses=(use,))
        else:
            self._messages.append(Answer(uses=(use,)))
        text, failed = _result(update)
        content: list[ContentBlock] = [text]
        if not failed and update.content is not UNSET:
            content += [part for part in update.content if isinstance(part, ImageContent)]
        self._messages.append(Results((ToolResult(use.id, use.name, tuple(content), failed),)))

    def compaction(self, summary: str) -> None:
        if summary:
            self._messages = compact_messages(self._messages, summary)

    def messages(self) -> list[Message]:
        return self._messages


def _arguments(raw_input: Any) -> str:
    match raw_input:
        case {"arguments": str() as text, **rest} if not rest:
            return text  # what the model wrote was not JSON
        case dict():
            return msgspec.json.encode(raw_input).decode()
        case _:
            return "{}"


def _result(update: ToolCallUpdate) -> tuple[str, bool]:
    """Return the result that the model received, and whether it was a failure."""
    match update.raw_output:
        case {"output": str() as text}:
            return text, False
        case {"error": str() as text}:
            return text, True
        case _:
            return "It was interrupted: check whether it had an effect.", True


# Compaction: the model summarises the conversation and continues from the summary.

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
