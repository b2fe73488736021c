"""The stored form of updates: JSON that future versions of Accord read, too."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from accord.agent.updates import (
    CommandsUpdate,
    CompactionSummaryUpdate,
    CompactionUpdate,
    ContextUsageUpdate,
    MessageRole,
    MessageUpdate,
    NoticeUpdate,
    OptionsUpdate,
    PlanFileUpdate,
    PlanMarkdownUpdate,
    PlanRemoved,
    PlanUpdate,
    SessionMessageUpdate,
    SubagentUpdate,
    TerminalExited,
    TerminalOutputUpdate,
    TerminalStarted,
    TitleUpdate,
    ToolCallUpdate,
    ToolContentUpdate,
    TurnEnded,
    Update,
)
from accord.text import lenient_json
from accord.types.content import (
    Annotations,
    AudioContent,
    EmbeddedResource,
    ImageContent,
    Other,
    ResourceLink,
    TextContent,
)
from accord.types.tool_calls import Diff, TerminalView, ToolCallLocation, ToolContent
from accord.wire.codec import encode

log: logging.Logger = logging.getLogger("accord.agent")


class _Annotated(Struct, omit_defaults=True, tag="text"):
    text: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None


class _Image(Struct, omit_defaults=True, tag="image"):
    data: bytes
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None


class _Audio(Struct, omit_defaults=True, tag="audio"):
    data: bytes
    mime_type: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None


class _Link(Struct, omit_defaults=True, tag="link"):
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    icons: tuple[dict[str, Any], ...] = ()


class _Text(Struct, omit_defaults=True, tag="resource"):
    uri: str
    content: str
    mime_type: str | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    content_meta: dict[str, Any] | None = None


class _Blob(Struct, omit_defaults=True, tag="blob"):
    uri: str
    content: bytes
    mime_type: str | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    content_meta: dict[str, Any] | None = None


class _Other(Struct, omit_defaults=True, tag="other"):
    raw: Any


class _Diff(Struct, omit_defaults=True, tag="diff"):
    path: str
    old: str | None = None
    new: str | None = None
    patch: str | None = None
    others: tuple[str, ...] = ()


class _Terminal(Struct, omit_defaults=True, tag="terminal"):
    terminal_id: str


_Item: TypeAlias = (
    str | _Annotated | _Image | _Audio | _Link | _Text | _Blob | _Other | _Diff | _Terminal
)


class _Said(Struct, omit_defaults=True, tag="said"):
    role: MessageRole
    message_id: str
    content: list[_Item]


class _Tool(Struct, omit_defaults=True, tag="tool", kw_only=True):
    id: str
    is_new: bool = field(default=False, name="begins")
    title: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    content: list[_Item] | UnsetType = UNSET
    locations: tuple[ToolCallLocation, ...] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    cancellable: bool | UnsetType = UNSET


class _Part(Struct, omit_defaults=True, tag="part"):
    id: str
    content: _Item
    continues: bool = field(default=False, name="goes_on")


class _Compaction(Struct, omit_defaults=True, tag="compaction"):
    id: str
    status: str
    error: str | UnsetType = UNSET


class _CompactionPart(Struct, omit_defaults=True, tag="compaction_part"):
    id: str
    content: _Item


class _SessionSaid(Struct, omit_defaults=True, tag="session_said", kw_only=True):
    id: str
    sender: str
    recipient: str
    sender_message_id: str | UnsetType = UNSET
    recipient_message_id: str | UnsetType = UNSET
    content: list[_Item]


_Stored: TypeAlias = (
    _Said
    | _Tool
    | _Part
    | PlanUpdate
    | OptionsUpdate
    | CommandsUpdate
    | TitleUpdate
    | ContextUsageUpdate
    | TerminalStarted
    | TerminalOutputUpdate
    | TerminalExited
    | TurnEnded
    | PlanMarkdownUpdate
    | PlanFileUpdate
    | PlanRemoved
    | NoticeUpdate
    | SubagentUpdate
    | _Compaction
    | _CompactionPart
    | _SessionSaid
)

_native = msgspec.json.Decoder(_Stored).decode


def _decode(entry: bytes) -> Any:
    try:
        return _native(entry)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # a lone surrogate, for example from text cut by JavaScript
        return msgspec.convert(lenient_json.loads(entry), _Stored)


def encode_update(update: Update) -> bytes:
    """Return an update as an entry of a store."""
    match update:
        case MessageUpdate(role, message_id, content):
            return encode(_Said(role, message_id, _items(content)))
        case ToolCallUpdate():
            values = {name: getattr(update, name) for name in update.__struct_fields__}
            if update.content is not UNSET:
                values["content"] = _items(update.content)
            return encode(_Tool(**values))
        case ToolContentUpdate(id, content, continues):
            return encode(_Part(id, _item(content), continues))
        case CompactionUpdate(id, status, error):
            return encode(_Compaction(id, status, error))
        case CompactionSummaryUpdate(id, content):
            return encode(_CompactionPart(id, _item(content)))
        case SessionMessageUpdate():
            values = {name: getattr(update, name) for name in update.__struct_fields__}
            values["content"] = _items(update.content)
            return encode(_SessionSaid(**values))
        case _:
            return encode(update)


def decode_update(entry: bytes) -> Update | None:
    """Return the update of an entry; None for an entry of a newer version of Accord."""
    try:
        stored = _decode(entry)
    except (msgspec.DecodeError, lenient_json.NotJson) as exc:
        log.warning("! an entry of a session cannot be decoded: %s", exc)
        return None
    match stored:
        case _Said(role, message_id, content):
            return MessageUpdate(role, message_id, tuple(map(_content, content)))  # type: ignore[arg-type]  # messages hold neither diffs nor terminals
        case _Tool():
            values = {name: getattr(stored, name) for name in stored.__struct_fields__}
            if stored.content is not UNSET:
                values["content"] = tuple(map(_content, stored.content))
            return ToolCallUpdate(**values)
        case _Part(id, content, continues):
            return ToolContentUpdate(id, _content(content), continues)
        case _Compaction(id, status, error):
            return CompactionUpdate(id, status, error)
        case _CompactionPart(id, content):
            return CompactionSummaryUpdate(id, _content(content))  # type: ignore[arg-type]  # a summary holds neither diffs nor terminals
        case _SessionSaid():
            values = {name: getattr(stored, name) for name in stored.__struct_fields__}
            values["content"] = tuple(map(_content, stored.content))
            return SessionMessageUpdate(**values)
        case _:
            return stored


def _items(content: Iterable[ToolContent]) -> list[_Item]:
    return [_item(part) for part in content]


def _item(content: ToolContent) -> _Item:
    match content:
        case TextContent():
            return _Annotated(str(content), content.annotations, content.meta)
        case str():
            return content
        case ImageContent():
            return _Image(*_values(content))
        case AudioContent():
            return _Audio(*_values(content))
        case ResourceLink():
            return _Link(*_values(content))
        case EmbeddedResource(content=str()):
            return _Text(*_values(content))
        case EmbeddedResource():
            return _Blob(*_values(content))
        case Diff():
            return _Diff(*_values(content))
        case TerminalView(terminal_id):
            return _Terminal(terminal_id)
        case Other(raw):
            return _Other(raw)


def _content(item: _Item) -> ToolContent:
    match item:
        case str():
            return item
        case _Annotated(text, annotations, meta):
            return TextContent(text, annotations=annotations, meta=meta)
        case _Image():
            return ImageContent(*_values(item))
        case _Audio():
            return AudioContent(*_values(item))
        case _Link():
            return ResourceLink(*_values(item))
        case _Text() | _Blob():
            return EmbeddedResource(*_values(item))
        case _Diff():
            return Diff(*_values(item))
        case _Terminal(terminal_id):
            return TerminalView(terminal_id)
        case _Other(raw):
            return Other(raw)


def _values(fields: Struct) -> list[Any]:
    """Return the values of the fields, which are equal in content and its stored form."""
    return [getattr(fields, name) for name in fields.__struct_fields__]
