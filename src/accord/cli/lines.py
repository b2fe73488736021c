"""A turn as JSON lines: one object for each event, for programs."""

from __future__ import annotations

import re
import sys
from typing import Any

import msgspec

from accord.client.connect import ConnectedAgent
from accord.client.events import Event
from accord.client.session import ClientSession
from accord.client.turn import ClientTurn
from accord.errors import RequestError

__all__ = ("Lines", "as_line")


def _plain(value: Any) -> Any:
    if isinstance(value, RequestError):
        return {"code": value.code, "message": value.message}
    raise NotImplementedError(f"{type(value).__name__} in an event")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


def as_line(event: Event) -> dict[str, Any]:
    """Return an event as JSON has it: its fields, and in `event` its name."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()
    fields = {key: getattr(event, key) for key in event.__struct_fields__}
    return {"event": name, **fields}


class Lines:
    """Writes to stdout; nobody is there to be asked."""

    ask = None

    def begin(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Say who it is."""
        info = {"name": agent.info.name, "version": agent.info.version}
        self._write(
            {
                "event": "session",
                "session_id": session.id,
                "agent": info,
                "protocol_version": agent.version,
            }
        )

    def show(self, event: Event) -> None:
        """Write an event."""
        self._write(as_line(event))

    def end(self, turn: ClientTurn) -> None:
        """Say how it ended."""
        self._write({"event": "end", "stop_reason": turn.stop_reason, "text": turn.text})

    def close(self) -> None:
        """Nothing is left to do."""

    def _write(self, line: dict[str, Any]) -> None:
        sys.stdout.buffer.write(_encode(line) + b"\n")
        sys.stdout.buffer.flush()
