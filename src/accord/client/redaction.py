"""Redacts events: every event has the method `redacted`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol, Self, cast

import msgspec
from msgspec import Struct

from accord.errors import RequestError
from accord.text.redact import MASK, Redactor, redactor
from accord.types.content import TextContent

__all__ = ("Redactable", "RedactedStreams", "redacted_streams")

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

    def redacted_part(self, event: Any, found: Redactor) -> str | bytes:
        """Return the text or the data of an event, without the secrets."""
        ...


# Set while a proxy handles an update.
redacted_streams: ContextVar[RedactedStreams | None] = ContextVar("redacted_streams", default=None)


class Redactable(Struct, frozen=True, gc=False):
    """Base class of the values that can be redacted."""

    def redacted(self, secrets: str | Iterable[str], mask: str = MASK) -> Self:
        """Return this with each secret replaced by `mask`, also in `_meta`; ids are not changed.

        In `Proxy.update`, secrets that are split over streamed parts are found, too: an end that
        can be the beginning of a secret is held back, until the next part decides.
        """
        found = redactor(secrets, mask)
        streams = redacted_streams.get()
        kind: Any = type(self)
        streamed: str | None = None if streams is None else getattr(kind, "streamed_part", None)
        changes: dict[str, Any] = {}
        for name in self.__struct_fields__:
            before = getattr(self, name)
            if before is None or name in _KEPT or name == streamed:
                continue
            if (value := _redacted(before, found)) is not before:
                changes[name] = value
        if streams is not None:
            part = streams.redacted_part(self, found)
            if streamed is not None and part != getattr(self, streamed):
                changes[streamed] = part
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
