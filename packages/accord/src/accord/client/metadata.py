"""Annotations and `_meta` of updates."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec.structs import replace

from accord.client.events import Event, Text, Thought, UserText
from accord.types.content import TextContent

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
