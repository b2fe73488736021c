"""Turns of the same agent without a gateway: python direct.py TURNS ASKS COMMAND….

Prints JSON, in milliseconds: `turn` of a session that is open, `ask` of `accord.ask`, which starts
the agent each time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import accord

_PROMPT = "echo hi"


async def turns(count: int, command: list[str]) -> list[float]:
    """Run turns in one session."""
    found: list[float] = []
    async with accord.connect(command) as agent:
        session = await agent.new_session(".")
        for _ in range(count):
            began = time.perf_counter()
            async with session.prompt(_PROMPT) as turn:
                await turn.wait()
            assert turn.text == "hi", turn.text
            found.append((time.perf_counter() - began) * 1e3)
    return found


def asks(count: int, command: list[str]) -> list[float]:
    """Start the agent for each prompt."""
    found: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        assert accord.ask(command, _PROMPT).text == "hi"
        found.append((time.perf_counter() - began) * 1e3)
    return found


if __name__ == "__main__":
    words = sys.argv[1:]
    print(
        json.dumps(
            {
                "turn": asyncio.run(turns(int(words[0]), words[2:])),
                "ask": asks(int(words[1]), words[2:]),
            }
        )
    )
