"""The chunks of a message are the same bytes, encoded whole or with a shared head."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from accord import Agent, FrameTooLarge, MemoryStore, Turn
from accord.transports.base import Frame
from agent.harness import BOTH, V1, connect_client

TEXTS = ["one", 'a "quoted" \\ text', "line\nbreak\0", "ünïcödé 🙂", "", "half \ud83d", "last"]


class Streams(Agent):
    def __init__(self, how: str) -> None:
        self.how = how

    async def prompt(self, turn: Turn) -> None:
        for text in TEXTS:
            match self.how:
                case "say":
                    await turn.say(text)
                case "think":
                    await turn.think(text)
                case _:
                    await asyncio.create_task(turn.say(text))


def _chunks(frames: list[bytes]) -> list[tuple[str, str]]:
    """Return the text of each chunk, and its frame without the text."""
    found: list[tuple[str, str]] = []
    for frame in frames:
        message: Any = json.loads(frame)
        if message.get("method") != "session/update":
            continue
        update = message["params"]["update"]
        if "chunk" in update["sessionUpdate"]:
            text = update["content"]["text"]
            encoded = json.dumps(text, ensure_ascii=False) if text != TEXTS[5] else '"half \\ud83d"'
            assert frame.decode().count(encoded) >= 1
            update["content"]["text"] = "…"
            found.append((text, json.dumps(message)))
    return found


@BOTH
@pytest.mark.parametrize("how", ["say", "think", "task"])
@pytest.mark.parametrize("stored", [False, True], ids=["no store", "store"])
async def test_all_chunks_of_a_message_are_encoded_alike(
    version: int, how: str, stored: bool
) -> None:
    frames: list[bytes] = []

    def observe(direction: str, frame: Frame) -> None:
        if direction == "sent":
            frames.append(bytes(frame))

    agent = Streams(how)
    if stored:
        agent.store = MemoryStore()
    async with connect_client(agent, version, observers=[observe]) as client:
        assert await client.prompt("go") == "end_turn"
    chunks = _chunks(frames)
    assert [text for text, _ in chunks] == TEXTS
    assert len({frame for _, frame in chunks}) == 1


async def test_chunk_that_is_too_large_is_rejected_and_the_message_continues() -> None:
    refused: list[FrameTooLarge] = []

    class Large(Agent):
        async def prompt(self, turn: Turn) -> None:
            for _ in range(3):
                await turn.say("a")
            stream: Any = turn._core.stream
            stream._peer.frame_bytes = 50_000
            try:
                await turn.say("x" * 100_000)
            except FrameTooLarge as error:
                refused.append(error)
            await turn.say("b")

    async with connect_client(Large(), V1) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.said() == "aaab"
    assert len(refused) == 1
