"""An agent process whose client closes stdin: what it still sends before it exits."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.harness import BOTH, V1
from requirement import requirement

AGENT = str(Path(__file__).with_name("slow_program.py"))


def line(method: str, request_id: int | None, params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    if request_id is not None:
        message["id"] = request_id
    return json.dumps(message).encode() + b"\n"


def initialize(version: int) -> bytes:
    params: dict[str, Any] = {"protocolVersion": version}
    if version == V1:
        params["clientCapabilities"] = {}
    else:
        params |= {"info": {"name": "pipe", "version": "1"}, "capabilities": {}}
    return line("initialize", 1, params)


async def piped(version: int, *prompts: str) -> tuple[list[Any], int | None]:
    """Send prompts, close stdin, and return all later output and the exit status."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        AGENT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(20):
        new = line("session/new", 2, {"cwd": "/project", "mcpServers": []})
        process.stdin.write(initialize(version) + new)
        opened: dict[str, Any] = {}
        while opened.get("id") != 2:
            opened = json.loads(await process.stdout.readline())
        for index, prompt in enumerate(prompts):
            text = {"type": "text", "text": prompt}
            params = {"sessionId": opened["result"]["sessionId"], "prompt": [text]}
            process.stdin.write(line("session/prompt", 3 + index, params))
        process.stdin.close()
        rest = await process.stdout.read()
        status = await process.wait()
    return [json.loads(message) for message in rest.splitlines()], status


def stop_reasons(version: int, messages: Sequence[Any]) -> list[str]:
    """Return the stop reasons of all turns."""
    if version == V1:
        found = [message.get("result", {}) for message in messages]
    else:
        found = [message.get("params", {}).get("update", {}) for message in messages]
    return [each["stopReason"] for each in found if "stopReason" in each]


@BOTH
@requirement("R-STDIO-07", "R-PROMPT-12")
@pytest.mark.parametrize("prompt", ["say", "ask"])
async def test_turn_is_finished_after_the_client_closed_stdin(version: int, prompt: str) -> None:
    messages, status = await piped(version, prompt)
    texts = [
        message["params"]["update"]["content"]["text"]
        for message in messages
        if message.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk"
    ]
    assert texts == ["one", "two"]
    ended = "end_turn" if prompt == "say" else "cancelled"
    assert stop_reasons(version, messages) == [ended]
    assert status == 0


@BOTH
@requirement("R-STDIO-07")
async def test_agent_exits_if_a_turn_does_not_end_after_stdin_was_closed(version: int) -> None:
    _, status = await piped(version, "forever")
    assert status == 0


async def test_v2_queued_prompts_share_the_same_time_limit() -> None:
    messages, status = await piped(2, "say", "say")
    assert stop_reasons(2, messages) == ["end_turn", "end_turn"]
    assert status == 0
