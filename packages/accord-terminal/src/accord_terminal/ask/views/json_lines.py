"""Shows a turn as JSON lines, one object for each event, for programs."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from accord.errors import RequestError
from accord.text.excerpt import hidden_replaced

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.events import Event
    from accord.client.session import ClientSession, ClientTurn
    from accord.types.session import StopReason


# Omitted if empty.
_OMITTED_IF_EMPTY = frozenset({"annotations", "content_meta", "icons", "meta"})

_encode = msgspec.json.Encoder().encode


def event_name(event: type[Event]) -> str:
    """Return the value of the key `event` for events of this type."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event.__name__).lower()


def event_line(event: Event) -> dict[str, Any]:
    """Return an event as a JSON object: its fields, and its name in `event`."""
    return {"event": event_name(type(event)), **_plain(event)}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)  # it may be a subclass
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, RequestError):
        return {"code": value.code, "message": value.message, "data": _plain_or_none(value.data)}
    if isinstance(value, msgspec.Struct):
        fields = {
            key: _plain(item)
            for key in value.__struct_fields__
            if (item := getattr(value, key)) or key not in _OMITTED_IF_EMPTY
        }
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


class JsonLinesView:
    """Writes one line to stdout for each event."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._is_over = False

    def show_starting(self, name: str) -> None:
        """Write nothing."""

    def session_opened(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Write the first line: the session and the agent."""
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

    def show_event(self, event: Event) -> None:
        """Write an event."""
        self._write(event_line(event))

    def show_stderr(self, line: str) -> None:
        """Write nothing; a failure reports the last lines."""

    def show_cancelling(self) -> None:
        """Write it to stderr."""
        self.show_warning("cancelling; press Ctrl-C again to quit")

    def show_warning(self, message: str) -> None:
        """Write it to stderr."""
        print(f"{self._program}: {message}", file=sys.stderr, flush=True)

    def user_quit(self, turn: ClientTurn | None) -> None:
        """Write the last line, although the agent has not ended the turn."""
        if turn is None:
            self.show_error("Interrupted before there was a turn", None)
        else:
            self._write_end(turn, turn.stop_reason or "cancelled")

    def turn_ended(self, turn: ClientTurn) -> None:
        """Write the last line."""
        self._write_end(turn, turn.stop_reason)

    def _write_end(self, turn: ClientTurn, stop_reason: StopReason | None) -> None:
        self._write(
            {
                "event": "end",
                "stop_reason": stop_reason,
                "text": turn.text,
                "token_usage": None if turn.token_usage is None else _plain(turn.token_usage),
            }
        )
        self._is_over = True

    def show_error(self, message: str, code: int | None) -> None:
        """Write the error as the last line."""
        self._write({"event": "error", "message": message, "code": code})
        self._is_over = True

    def close(self) -> None:
        """Write nothing."""

    def _write(self, line: dict[str, Any]) -> None:
        if self._is_over:
            return
        sys.stdout.buffer.write(escape_hidden(_encode(line)) + b"\n")
        sys.stdout.buffer.flush()


def escape_hidden(line: bytes) -> bytes:
    """Return JSON with characters escaped that hide text: DEL, C1, directions, fillers."""
    if line.isascii() and b"\x7f" not in line:
        return line
    return hidden_replaced(line.decode(), _escape).encode()


def _escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))
