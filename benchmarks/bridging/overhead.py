"""What a bridge costs for each text delta, in one process: python overhead.py KIND DELTAS ROUNDS.

Prints JSON: the processor time of each round in microseconds for a delta, `bare` without a bridge,
`agent` with the bridge and a client that only counts frames, `both` with a client of Accord.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from framework_agents import AGENTS

import accord
from accord.transports.memory import pair
from accord_bridges import as_agent

_CHUNK = b"agent_message_chunk"


class Counter:
    """The end of a client that decodes nothing."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.chunks = 0

    def frames_received(self, frames: Sequence[Any]) -> None:
        for frame in frames:
            if _CHUNK in frame:
                self.chunks += 1
            else:
                message = json.loads(bytes(frame))
                waiting = self._answers.get(message.get("id"))
                if waiting is not None and "method" not in message:
                    waiting.set_result(message)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        raise AssertionError("no frame is so long")

    def eof_received(self, error: Exception | None) -> None:
        pass

    def writable(self) -> None:
        pass

    async def call(self, method: str, params: Any) -> Any:
        number = len(self._answers) + 1
        self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._transport.write([json.dumps(message).encode()])
        answer = await self._answers[number]
        assert "result" in answer, answer
        return answer["result"]


@contextlib.asynccontextmanager
async def served(target: Any) -> AsyncGenerator[Any, None]:
    """Serve the agent; yield the other end."""
    there, here = pair()
    serving = asyncio.create_task(accord.serve(as_agent(target), there))
    try:
        yield here
    finally:
        await here.aclose()
        await asyncio.wait([serving], timeout=10)


async def measure(kind: str, deltas: int, rounds: int) -> dict[str, list[float]]:
    """Run the three in turns."""
    target, bare = AGENTS[kind]()
    prompt = str(deltas)
    found: dict[str, list[float]] = {"bare": [], "agent": [], "both": []}

    async def plain(prompt: str) -> None:
        count = await bare(prompt)
        assert count == int(prompt), f"{kind}: {count} deltas without a bridge"

    async with served(target) as one, served(target) as other:
        counter = Counter(one)
        await one.start(counter)
        await counter.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        opened = await counter.call("session/new", {"cwd": "/", "mcpServers": []})

        async def agent_alone(prompt: str) -> None:
            counter.chunks = 0
            text = {"type": "text", "text": prompt}
            given = {"sessionId": opened["sessionId"], "prompt": [text]}
            await counter.call("session/prompt", given)
            assert counter.chunks == int(prompt), f"{kind}: {counter.chunks} chunks"

        async with accord.connect(other) as client:
            session = await client.new_session("/")

            async def both(prompt: str) -> None:
                async with session.prompt(prompt) as turn:
                    await turn.wait()
                assert len(turn.text) == 6 * int(prompt), len(turn.text)

            works = [("bare", plain), ("agent", agent_alone), ("both", both)]
            for _, work in works:
                await work("100")  # imports, caches
            for number in range(rounds):
                for at in range(len(works)):
                    name, work = works[(at + number) % len(works)]
                    began = time.process_time()
                    await work(prompt)
                    found[name].append((time.process_time() - began) / deltas * 1e6)
    return found


if __name__ == "__main__":
    words = sys.argv[1:]
    print(json.dumps(asyncio.run(measure(words[0], int(words[1]), int(words[2])))))
