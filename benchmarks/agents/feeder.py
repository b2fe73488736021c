"""An agent that sends lines made beforehand, as fast as pipes go: the client alone is measured."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from workload import chunk_text

BLOCK = 1000


def send(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def block(session_id: str) -> bytes:
    """Return `BLOCK` chunks as lines."""
    return b"".join(
        line(
            {
                "jsonrpc": "2.0",
                "method": "session/update",
                "params": {
                    "sessionId": session_id,
                    "update": {
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "text", "text": chunk_text(number)},
                    },
                },
            }
        )
        for number in range(BLOCK)
    )


for text in sys.stdin.buffer:
    request = json.loads(text)
    result: dict[str, Any] = {}
    match request["method"]:
        case "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {}}
        case "session/new":
            result = {"sessionId": "s1"}
        case "session/prompt":
            lines = block("s1")
            for _ in range(json.loads(request["params"]["prompt"][0]["text"])["n"] // BLOCK):
                send(lines)
            result = {"stopReason": "end_turn"}
    send(line({"jsonrpc": "2.0", "id": request["id"], "result": result}))
