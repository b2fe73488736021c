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
