"""What agents of tests send, which are programs of this folder."""

from __future__ import annotations

import json
from typing import Any

__all__ = ("refuse", "send", "update")


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(session_id: str, value: dict[str, Any]) -> None:
    send(method="session/update", params={"sessionId": session_id, "update": value})


def refuse(call: dict[str, Any]) -> None:
    """Answer a request of a method that the agent does not have."""
    if "id" in call and "method" in call:
        send(id=call["id"], error={"code": -32601, "message": "unknown"})
