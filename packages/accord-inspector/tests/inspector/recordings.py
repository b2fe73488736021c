"""Recordings for the tests of the timeline, written as `accord_trace.Recording` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from accord_trace import Recording

Direction = Literal["to_agent", "to_client"]

SESSIONS = 5
UPDATES = 500  # of a turn

_HEADER = {"type": "header", "version": 1, "t": "2026-01-01T00:00:00.000000Z", "program": "test"}


def message(direction: Direction, **fields: Any) -> tuple[Direction, bytes]:
    """Return a frame with its direction."""
    return direction, json.dumps({"jsonrpc": "2.0", **fields}).encode()


def opening(session: str = "s1", **result: Any) -> list[tuple[Direction, bytes]]:
    """Return the frames that open a session of version 1."""
    info = {"name": "test", "version": "1"}
    return [
        message(
            "to_agent",
            id=0,
            method="initialize",
            params={"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info},
        ),
        message(
            "to_client",
            id=0,
            result={
                "protocolVersion": 1,
                "agentCapabilities": {},
                "authMethods": [],
                "agentInfo": info,
                **result,
            },
        ),
        message("to_agent", id=1, method="session/new", params={"cwd": "/w", "mcpServers": []}),
        message("to_client", id=1, result={"sessionId": session}),
    ]


def chunk(text: str, session: str = "s1") -> tuple[Direction, bytes]:
    """Return an update with text of the agent."""
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return message(
        "to_client", method="session/update", params={"sessionId": session, "update": update}
    )


def turn(
    number: int, *updates: tuple[Direction, bytes], text: str = "hello", session: str = "s1"
) -> list[tuple[Direction, bytes]]:
    """Return the frames of a turn."""
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return [
        message("to_agent", id=number, method="session/prompt", params=prompt),
        *updates,
        message("to_client", id=number, result={"stopReason": "end_turn"}),
    ]


def save(path: Path, frames: Iterable[tuple[Direction, bytes]]) -> Path:
    """Write a recording of one connection."""
    with Recording(path) as recording:
        recording.add(recording.hop(), frames)
    return path


def save_many(path: Path, turns: int) -> Path:
    """Write a recording of turns of 500 messages each; one in 20 ends with an error."""
    updates = "".join(map(_update, range(UPDATES - 2)))
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(_HEADER) + "\n")
        for number in range(turns):
            text = f"{_request(number)}{updates}{_response(number)}"
            session, ts = f"session-{number % SESSIONS}", f"{number * UPDATES / 5000:.6f}"
            file.write(text.replace("SESSION", session).replace("TIME", ts))
    return path


def _request(number: int) -> str:
    return (
        f'{{"type":"request","ts":TIME,"protocol":"acp","from":"Client","to":"Agent","id":{number},'
        f'"method":"session/prompt","session":"SESSION","dir":"to_agent","conn":"1","bytes":150,'
        f'"params":{{"sessionId":"SESSION","prompt":[{{"type":"text","text":"prompt {number}"}}]}}'
        "}\n"
    )


def _update(place: int) -> str:
    return (
        '{"type":"notification","ts":TIME,"protocol":"acp","from":"Agent","to":"Client",'
        '"method":"session/update","session":"SESSION","dir":"to_client","conn":"1","bytes":190,'
        '"params":{"sessionId":"SESSION","update":{"sessionUpdate":"agent_message_chunk",'
        f'"content":{{"type":"text","text":"word {place} of a message"}}}}}}}}\n'
    )


def _response(number: int) -> str:
    is_error = number % 20 == 19
    payload = '{"code":-32603,"message":"broken"}' if is_error else '{"stopReason":"end_turn"}'
    return (
        f'{{"type":"response","ts":TIME,"protocol":"acp","from":"Agent","to":"Client",'
        f'"id":{number},"is_error":{str(is_error).lower()},"session":"SESSION","dir":"to_client",'
        f'"conn":"1","bytes":70,"payload":{payload}}}\n'
    )
