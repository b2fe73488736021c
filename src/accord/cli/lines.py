"""A turn as JSON lines: one object for each event, for programs."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from accord.errors import RequestError

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.elicitation import Form, Values, WebPage
    from accord.client.events import Decision, Event, PermissionRequest
    from accord.client.session import ClientSession
    from accord.client.turn import ClientTurn

__all__ = ("Lines", "as_line", "name_of")

_encode = msgspec.json.Encoder().encode


def name_of(event: type[Event]) -> str:
    """Return what `event` says of events of this type."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event.__name__).lower()


def as_line(event: Event) -> dict[str, Any]:
    """Return an event as JSON has it: its fields, and in `event` its name."""
    return {"event": name_of(type(event)), **_plain(event)}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, RequestError):
        return {"code": value.code, "message": value.message, "data": _plain_or_none(value.data)}
    if isinstance(value, msgspec.Struct):
        fields = {key: _plain(getattr(value, key)) for key in value.__struct_fields__}
        tag = value.__struct_config__.tag
        if tag == "resource" and not isinstance(getattr(value, "content", ""), str):
            tag = "blob"  # its content is base64
        return fields if tag is None else {"type": tag, **fields}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]  # JSON
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  # JSON
    raise NotImplementedError(f"{type(value).__name__} in an event")


def _plain_or_none(value: Any) -> Any:
    return None if value is msgspec.UNSET else _plain(value)


class Lines:
    """Writes to stdout; nobody is there to be asked."""

    def wait(self, name: str) -> None:
        """Nothing is to be said of the start."""

    def begin(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Say who it is."""
        info = {"name": agent.info.name, "version": agent.info.version}
        self._write(
            {
                "event": "session",
                "session_id": session.id,
                "agent": info,
                "protocol_version": agent.version,
                "options": {option.id: option.value for option in session.transcript.options},
            }
        )

    async def ask(self, request: PermissionRequest) -> Decision | None:
        """Leave it undecided."""
        return None

    async def fill_in(self, form: Form) -> Values | None:
        """Decline; no forms are offered."""
        return None

    async def visit(self, page: WebPage) -> bool:
        """Decline; no pages are offered."""
        return False

    def decline(self) -> bool:
        """Nothing is asked."""
        return False

    def show(self, event: Event) -> None:
        """Write an event."""
        self._write(as_line(event))

    def end(self, turn: ClientTurn) -> None:
        """Say how it ended."""
        tokens = None if turn.tokens is None else _plain(turn.tokens)
        self._write(
            {
                "event": "end",
                "stop_reason": turn.stop_reason,
                "text": turn.text,
                "tokens": tokens,
            }
        )

    def fail(self, message: str, code: int | None) -> None:
        """Say what went wrong; it is the last line."""
        self._write({"event": "error", "message": message, "code": code})

    def close(self) -> None:
        """Nothing is left to do."""

    def _write(self, line: dict[str, Any]) -> None:
        sys.stdout.buffer.write(_encode(line) + b"\n")
        sys.stdout.buffer.flush()
