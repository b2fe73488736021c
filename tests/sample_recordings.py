"""Recordings for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from accord_trace.line_builder import Hop, LineBuilder
from accord_trace.records import Direction

ESCAPES = "\x1b[2J\u202eevil"


class Writer:
    """Builds a recording line by line, at given times."""

    def __init__(self, hop: Hop | None = None) -> None:
        self.text = (
            b'{"type":"header","version":1,"t":"2026-05-01T10:00:00Z","argv":["my-agent"]}\n'
        )
        self._lines = LineBuilder(hop or Hop(), redact=False)

    def add(self, ts: float, direction: Direction, **message: Any) -> None:
        frame = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()
        self.text += self._lines.line(ts, direction, frame)

    def to_agent(self, ts: float, **message: Any) -> None:
        self.add(ts, "to_agent", **message)

    def to_client(self, ts: float, **message: Any) -> None:
        self.add(ts, "to_client", **message)

    def update(self, ts: float, **update: Any) -> None:
        params = {"sessionId": "s", "update": update}
        self.to_client(ts, method="session/update", params=params)

    def noise(self, ts: float, frame: bytes) -> None:
        self.text += self._lines.line(ts, "to_client", frame)

    def end(self, ts: float, direction: Direction, reason: str) -> None:
        self.text += self._lines.end(ts, direction, reason)

    def save(self, path: Path) -> Path:
        path.write_bytes(self.text)
        return path


def one_turn(version: int = 1) -> Writer:
    """Return the recording of a turn with a tool call, usage, an error and noise."""
    talk = Writer()
    talk.to_agent(0.0, id=0, method="initialize", params={"protocolVersion": version})
    talk.to_client(0.1, id=0, result={"protocolVersion": version})
    talk.to_agent(0.2, id=1, method="session/new", params={"cwd": "/x", "mcpServers": []})
    talk.to_client(0.3, id=1, result={"sessionId": "s"})
    text = [{"type": "text", "text": "Fix it"}]
    talk.to_agent(1.0, id=2, method="session/prompt", params={"sessionId": "s", "prompt": text})
    if version == 2:
        talk.to_client(1.01, id=2, result={"messageId": "m"})
    for number, chunk in enumerate(("Hello ", f"world {ESCAPES}")):
        content = {"type": "text", "text": chunk}
        talk.update(1.25 + number / 10, sessionUpdate="agent_message_chunk", content=content)
    talk.update(
        1.5, sessionUpdate="tool_call", toolCallId="t", title=f"Read {ESCAPES}", status="pending"
    )
    talk.noise(1.6, b"npm warn")
    talk.update(2.0, sessionUpdate="tool_call_update", toolCallId="t", status="completed")
    talk.update(
        2.5,
        sessionUpdate="usage_update",
        used=500,
        size=1000,
        cost={"amount": 0.25, "currency": "USD"},
    )
    usage = {"totalTokens": 30, "inputTokens": 10, "outputTokens": 20}
    if version == 1:
        talk.to_client(3.0, id=2, result={"stopReason": "end_turn", "usage": usage})
    else:
        talk.update(
            3.0, sessionUpdate="state_update", state="idle", stopReason="end_turn", usage=usage
        )
    talk.to_agent(3.5, id="x", method="session/load", params={"sessionId": "lost"})
    talk.to_client(3.75, id="x", error={"code": -32002, "message": f"not found {ESCAPES}"})
    talk.to_client(4.0, id=9, method="fs/read_text_file", params={"sessionId": "s", "path": "/y"})
    return talk
