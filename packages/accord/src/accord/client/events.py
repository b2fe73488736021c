"""The events of a session, the same in both protocol versions.

An event contains the new state of an entity, so a transcript can be built from events alone.
`str(event)` is one short line for people, `repr(event)` all of its fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any, Literal, Protocol, Self, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from accord.errors import RequestError
from accord.text import lenient_json
from accord.text.excerpt import excerpt, one_line
from accord.text.redact import MASK, Redactor, redactor
from accord.types.content import Annotations, ContentBlock, TextContent
from accord.types.permission import PermissionOption
from accord.types.session import (
    AvailableCommand,
    ContextUsage,
    PlanEntry,
    SessionOption,
    StopReason,
    TokenUsage,
)
from accord.types.tool_calls import ToolCallLocation, ToolContent, ToolKind, ToolStatus

# Redacts events: every event has the method `redacted`.

# Ids and enumerations: they are compared, not read, so a change would break a session.
_KEPT = frozenset(
    (
        "changed",
        "id",
        "kind",
        "message_id",
        "recipient",
        "recipient_message_id",
        "role",
        "sender",
        "sender_message_id",
        "session_id",
        "state",
        "status",
    )
)


class RedactedStreams(Protocol):
    """What redacts the parts of streamed text and output together."""

    def redacted_part(self, event: Any, found: Redactor) -> tuple[str, Any] | None:
        """Return the name of the streamed field of an event, if any, and its redacted value."""
        ...


# Set while a proxy handles an update.
redacted_streams: ContextVar[RedactedStreams | None] = ContextVar("redacted_streams", default=None)


class Redactable(Struct, frozen=True, gc=False):
    """Base class of the values that can be redacted."""

    def redacted(self, secrets: str | Iterable[str], mask: str = MASK) -> Self:
        """Return this with each secret replaced by `mask`, also in `_meta`; ids are not changed.

        In `Proxy.update`, secrets that are split over streamed parts are found, too: an end that
        can be the beginning of a secret is held back, until the next part decides. If something
        else interrupts, the end is shown, and the rest of the secret is replaced.
        """
        found = redactor(secrets, mask)
        streams = redacted_streams.get()
        part = None if streams is None else streams.redacted_part(self, found)
        changes: dict[str, Any] = {}
        for name in self.__struct_fields__:
            before = getattr(self, name)
            if part is not None and name == part[0]:
                if part[1] != before:
                    changes[name] = part[1]
            elif before is None or name in _KEPT:
                continue
            elif (value := _redacted(before, found)) is not before:
                changes[name] = value
        return msgspec.structs.replace(self, **changes) if changes else self


def _redacted(value: Any, found: Redactor) -> Any:
    """Return a value of an event without the secrets; the same object if it has none."""
    match value:
        case TextContent():
            text = found.text(value)
            meta = found.value(value.meta)
            if text == value and meta is value.meta:
                return value
            return TextContent(text, annotations=value.annotations, meta=meta)
        case str() | dict() | list():
            return found.value(value)
        case bytes():
            return value
        case RequestError():
            message, data = found.text(value.message), found.value(value.data)
            if message == value.message and data is value.data:
                return value
            return RequestError.of(value.code, message, data)
        case Struct():
            changes = {
                name: new
                for name in value.__struct_fields__
                if name not in _KEPT
                and (new := _redacted(old := getattr(value, name), found)) is not old
            }
            return msgspec.structs.replace(value, **changes) if changes else value
        case Sequence():
            items = cast("Sequence[Any]", value)
            new_items = tuple(_redacted(item, found) for item in items)
            same = all(new is old for new, old in zip(new_items, items, strict=True))
            return items if same else new_items
        case _:
            return value


Role: TypeAlias = Literal["agent", "thought", "user"]
# The `_meta` of an update; if an update becomes several events, each has it.
Meta: TypeAlias = dict[str, Any]

UNFINISHED = "not finished by the agent"
_LENGTH = 120  # of a line
_MANY = 20  # names in a line


def _short(text: str) -> str:
    return excerpt(one_line(text, _LENGTH), _LENGTH)


def _line(what: str, *details: str) -> str:
    """Return the text of an event: one line, without characters that can hide text."""
    return excerpt(f"{_short(what)}: {', '.join(filter(None, map(_short, details)))}", _LENGTH)


def _shown(content: Sequence[ContentBlock]) -> str:
    """Return the first block of a message: text, an address, or the type of the data."""
    for block in content[:1]:
        if isinstance(block, str):
            return block
        kind = getattr(block, "mime_type", None) or type(block).__name__
        return str(getattr(block, "uri", None) or kind)
    return "empty"


class Text(Redactable, frozen=True, gc=False):
    """Text that the agent appends to a message; a whole message is Markdown."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None  # of the content block, as is `content_meta`
    content_meta: Meta | None = None
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line("Text", self.text)


class Thought(Redactable, frozen=True, gc=False):
    """Text that the agent appends to a thought."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None  # of the content block, as is `content_meta`
    content_meta: Meta | None = None
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line("Thought", self.text)


class UserText(Redactable, frozen=True, gc=False):
    """Text of the user: of a prompt from this client or another one, or of a replay."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None  # of the content block, as is `content_meta`
    content_meta: Meta | None = None
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line("User", self.text)


class ContentChunk(Redactable, frozen=True, gc=True):
    """Content other than text, appended to a message (`v1.ContentChunk`, `v2.ContentChunk`)."""

    content: ContentBlock
    role: Role = "agent"
    message_id: str | None = None
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line(f"Content ({self.role})", _shown((self.content,)))


class MessageReplaced(Redactable, frozen=True, gc=True):
    """The agent has replaced the content of a message."""

    role: Role
    message_id: str
    content: tuple[ContentBlock, ...]
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line(f"Message replaced ({self.role})", _shown(self.content))


FINAL_STATUSES: frozenset[str] = frozenset({"completed", "failed", "cancelled"})  # of a tool call


class ToolCall(Redactable, frozen=True, kw_only=True, gc=False):
    """A tool call in its current state; `changed` names the changed fields.

    The wire types are `v1.ToolCall` and `v2.ToolCallUpdate`.
    """

    id: str
    title: str = ""
    kind: ToolKind = "other"
    status: ToolStatus = "pending"
    name: str | None = None  # the name of the tool, for programs; not a basis for permissions
    content: Sequence[ToolContent] = ()  # a tuple or an equal sequence
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    cancellable: bool = False
    changed: tuple[str, ...] = ()
    meta: Meta | None = None
    # The turn ended before the agent reported a final status; a later update resets it.
    unfinished: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the status is final. An unknown status is not."""
        return self.status in FINAL_STATUSES

    @property
    def is_open(self) -> bool:
        """Whether the agent is still at it: neither final nor left `unfinished`."""
        return not (self.unfinished or self.is_final)

    @property
    def shown_status(self) -> str:
        """The status for people: "not finished by the agent" if the turn has left it open."""
        return UNFINISHED if self.unfinished and not self.is_final else self.status

    def __str__(self) -> str:
        title = _short(self.title) or _short(self.name or self.id)
        changed = set(self.changed) - {"unfinished"}
        more = "" if changed & {"title", "status"} else ", ".join(sorted(changed))
        return _line("Tool call", f"{title} ({_short(self.kind)})", self.shown_status, more)


class Plan(Redactable, frozen=True, gc=True):
    """A whole plan (`v1.Plan`, `v2.PlanUpdate`); if there are several, each has an id.

    If `removed` is true, the plan no longer exists.
    """

    entries: tuple[PlanEntry, ...] = ()
    id: str | None = None
    markdown: str | None = None
    uri: str | None = None
    removed: bool = False
    meta: Meta | None = None

    def __str__(self) -> str:
        if self.removed:
            return _line("Plan", "removed")
        done = sum(entry.status in {"completed", "cancelled"} for entry in self.entries)
        now = next((one.content for one in self.entries if one.status == "in_progress"), "")
        steps = f"{done} of {len(self.entries)} done" if self.entries else ""
        return _line("Plan", steps, now, self.markdown or self.uri or "")


class CommandsChanged(Redactable, frozen=True, gc=True):
    """The available slash commands have changed."""

    commands: tuple[AvailableCommand, ...]
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line("Commands", *(f"/{command.name}" for command in self.commands[:_MANY]))


class ModeChanged(Redactable, frozen=True, gc=True):
    """The mode of the session has changed."""

    mode: str
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line("Mode", self.mode)


class OptionsChanged(Redactable, frozen=True, gc=True):
    """The config options have changed: all of them, with their current values."""

    options: tuple[SessionOption, ...]
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line("Options", *(f"{one.id}={one.value}" for one in self.options[:_MANY]))


class UsageChanged(Redactable, frozen=True, gc=True):
    """The context usage or the cost of the session has changed."""

    usage: ContextUsage
    meta: Meta | None = None

    def __str__(self) -> str:
        used, cost = self.usage, self.usage.cost
        costs = "" if cost is None else f"{cost.amount:g} {_short(cost.currency)}"
        return _line("Usage", f"{used.used} of {used.size} tokens", costs)


class TitleChanged(Redactable, frozen=True, gc=True):
    """The title of the session has changed; None if it was removed."""

    title: str | None
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line("Title", "removed" if self.title is None else self.title)


class UpdatedAtChanged(Redactable, frozen=True, gc=True):
    """The time of the last change of the session, as RFC 3339; None if the agent removed it."""

    updated_at: str | None
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line("Updated", "unknown" if self.updated_at is None else self.updated_at)


class Notice(Redactable, frozen=True, gc=True):
    """A notice to the user, outside the conversation (`v1.Notice`, `v2.Notice`)."""

    severity: Literal["info", "warning", "error"] | str
    title: str
    description: str | None = None
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line(f"Notice ({_short(self.severity)})", self.title, self.description or "")


class Compaction(Redactable, frozen=True, kw_only=True, gc=True):
    """A compaction of the conversation history by the agent."""

    id: str
    status: Literal["in_progress", "completed", "failed", "cancelled"] | str
    summary: tuple[ContentBlock, ...] = ()
    error: str | None = None
    meta: Meta | None = None

    def __str__(self) -> str:
        return _line("Compaction", self.status, self.error or _shown(self.summary))


class AgentTerminal(Redactable, frozen=True, kw_only=True, gc=True):
    """A terminal in its current state; its output arrives as `TerminalOutputChunk`."""

    id: str
    command: str | None = None
    cwd: str | None = None
    exited: bool = False
    exit_code: int | None = None
    signal: str | None = None
    size: tuple[int, int] | None = None  # columns and rows
    cancellable: bool = False
    meta: Meta | None = None

    def __str__(self) -> str:
        ended = self.signal or (
            "exited" if self.exit_code is None else f"exit status {self.exit_code}"
        )
        return _line("Terminal", self.command or self.id, ended if self.exited else "running")


class TerminalOutputChunk(Redactable, frozen=True, gc=True):
    """Output of a terminal (`v2.TerminalOutputChunk`).

    If `replaces` is true, it replaces all earlier output.
    """

    id: str
    data: bytes
    replaces: bool = False
    meta: Meta | None = None

    def __str__(self) -> str:
        text = bytes(self.data[:_LENGTH]).decode("utf-8", "replace")
        return _line("Terminal output", f"{len(self.data)} bytes", text)


class StateChanged(Redactable, frozen=True, kw_only=True, gc=True):
    """The state of the session has changed. An unknown state is not idle.

    An idle state can contain the stop reason. `background` has the ids of background work, None
    if the agent did not report it.
    """

    state: Literal["running", "idle", "requires_action"] | str
    stop_reason: StopReason | None = None
    error: RequestError | None = None
    token_usage: TokenUsage | None = None
    background: tuple[str, ...] | None = None
    meta: Meta | None = None

    def __str__(self) -> str:
        work = f"background: {len(self.background)}" if self.background else ""
        error = "" if self.error is None else str(self.error)
        return _line("State", self.state, self.stop_reason or "", error, work)


class Subagent(Redactable, frozen=True, kw_only=True, gc=True):
    """A session that the agent has started for a part of its work, in its current state.

    `state` is None if it is unknown. If `cwd` or `additional_directories` is None, the value of
    the parent session applies.
    """

    id: str  # the session id: see `ClientSession.subagent`
    title: str | None = None
    description: str | None = None
    state: StateChanged | None = None
    cancellable: bool = False
    cwd: str | None = None
    additional_directories: tuple[str, ...] | None = None  # in addition to `cwd`
    meta: Meta | None = None

    def __str__(self) -> str:
        state = "" if self.state is None else self.state.state
        return _line("Subagent", self.title or self.id, state)


class SessionMessage(Redactable, frozen=True, kw_only=True, gc=True):
    """A message between two sessions, complete so far, as one of them sees it.

    The wire types are `v1.SessionMessage` and `v2.SessionMessage`.
    """

    id: str
    sender: str | None = None  # ids of sessions
    recipient: str | None = None
    sender_message_id: str | None = None  # its id in the other session
    recipient_message_id: str | None = None
    content: tuple[ContentBlock, ...] = ()
    meta: Meta | None = None

    def __str__(self) -> str:
        ends = f"from {_short(self.sender or '?')} to {_short(self.recipient or '?')}"
        return _line("Message", ends, _shown(self.content))


class PermissionRequest(Redactable, frozen=True, kw_only=True, gc=True):
    """A permission request; `tool_call` or `command` describe the action."""

    session_id: str
    cwd: str  # of the session
    title: str
    options: tuple[PermissionOption, ...]
    description: str | None = None
    tool_call: ToolCall | None = None
    command: str | None = None

    def __str__(self) -> str:
        return _line("Permission request", self.title or self.command or "")


# The decision of a policy: an option of the request, or the kind of the option to choose.
Decision: TypeAlias = (
    Literal["allow", "allow_always", "reject", "reject_always", "cancel"] | PermissionOption
)


class PermissionDecided(Redactable, frozen=True, gc=True):
    """A permission request was decided; `option` is None if it was cancelled."""

    request: PermissionRequest
    option: PermissionOption | None

    @property
    def allowed(self) -> bool:
        """Whether the action is allowed."""
        return self.option is not None and self.option.allows

    def __str__(self) -> str:
        chosen = "not answered" if self.option is None else self.option.name or self.option.kind
        return _line("Permission", self.request.title or self.request.command or "", chosen)


class UnknownUpdate(Redactable, frozen=True, gc=True):
    """An update of an unknown type, as received."""

    raw: Any

    def __str__(self) -> str:
        raw = self.raw
        kind = raw.get("sessionUpdate") if lenient_json.is_object(raw) else None
        return _line("Unknown update", kind if isinstance(kind, str) else type(raw).__name__)


Event: TypeAlias = (
    Text
    | Thought
    | UserText
    | ContentChunk
    | MessageReplaced
    | ToolCall
    | Plan
    | CommandsChanged
    | ModeChanged
    | OptionsChanged
    | UsageChanged
    | TitleChanged
    | UpdatedAtChanged
    | Notice
    | Compaction
    | Subagent
    | SessionMessage
    | AgentTerminal
    | TerminalOutputChunk
    | StateChanged
    | PermissionDecided
    | UnknownUpdate
)


# Annotations and `_meta` of updates.

_Said: TypeAlias = type[Text] | type[Thought] | type[UserText]


def text_event(event: _Said, content: str, message_id: str | None) -> Text | Thought | UserText:
    """Return a text event with the annotations and `_meta` of its content block."""
    if isinstance(content, TextContent):
        return event(str(content), message_id, content.annotations, content.meta)
    return event(content, message_id)


def with_meta(
    event: Event | tuple[Event, ...] | None, meta: Any
) -> Event | tuple[Event, ...] | None:
    """Return the events of an update with its `_meta`."""
    if not isinstance(meta, dict) or event is None:
        return event
    if isinstance(event, tuple):
        return tuple(_one_with_meta(each, meta) for each in event)
    return _one_with_meta(event, meta)


def _one_with_meta(event: Event, meta: Any) -> Event:
    if "meta" not in event.__struct_fields__ or getattr(event, "meta", None) is not None:
        return event
    return replace(event, meta=meta)
